import type { CallBound } from '../../common/call-bound.ts'
import { evaluated, type RedisCommand, type RedisConnection } from './link.ts'
import type { Script } from './scripts.ts'

interface Evaluated {
  readonly keys: string[]
  readonly arguments: string[]
}

/** A server of a cluster with its clients. */
interface ClusterMember {
  readonly address?: string
  readonly client?: NodeRedis | Promise<NodeRedis>
  readonly pubSub?: { readonly client?: NodeRedis }
  readonly pubSubClient?: NodeRedis | Promise<NodeRedis>
}

/** The part of a client, cluster or sentinel that is used. */
interface NodeRedis {
  readonly isOpen?: boolean
  connect(): Promise<unknown>
  /** Closes immediately. In version 4 it is called `disconnect` and returns a promise. */
  destroy?(): unknown
  disconnect?(): Promise<unknown>
  ref?(): void
  unref?(): void
  eval(script: string, call: Evaluated): Promise<unknown>
  evalSha(sha: string, call: Evaluated): Promise<unknown>
  sendCommand(...args: unknown[]): Promise<unknown>
  subscribe(channel: string, listener: (message: string, channel: string) => void): Promise<unknown>
  unsubscribe(channel: string): Promise<unknown>
  readonly masters?: readonly ClusterMember[]
  readonly replicas?: readonly ClusterMember[]
  readonly pubSubNode?: ClusterMember | undefined
  nodeClient?(node: object): NodeRedis | Promise<NodeRedis>
  getSentinelNode?: unknown
  on(event: string, listener: (...values: unknown[]) => void): unknown
}

/** Adapts a client of `redis`. */
export class NodeRedisConnection implements RedisConnection {
  readonly keyPrefix = ''
  readonly isCluster: boolean
  readonly #client: NodeRedis
  readonly #isSingle: boolean
  readonly #listeners = new Set<(cause: unknown) => void>()
  #cause: unknown
  /** Undefined until connecting has begun. */
  #connecting: Promise<unknown> | undefined
  #hasSocket = false
  #isDestroyed = false

  constructor(client: unknown) {
    this.#client = client as NodeRedis
    this.isCluster = this.#client.nodeClient !== undefined
    this.#isSingle = !this.isCluster && !this.#client.getSentinelNode
    this.#client.on('error', (error) => {
      this.#cause ??= error
      // A cluster or sentinel client keeps working when one of its connections fails.
      if (this.#isSingle) this.#lose()
      if (this.#isDestroyed) void this.#end()
    })
    this.#client.on('end', () => this.#lose())
    this.#client.on('connect', () => {
      this.#hasSocket = true
      if (this.#isDestroyed) void this.#end()
    })
  }

  async connect(): Promise<void> {
    const client = this.#client
    if (client.isOpen) return
    await new Promise<void>((resolve, reject) => {
      // A client that keeps retrying would never report why it cannot connect.
      this.#listeners.add((cause) => reject(cause))
      this.#connecting = client.connect()
      this.#connecting.then(
        () => resolve(),
        (error: unknown) => reject((this.#isSingle ? (this.#cause ?? error) : error) as Error),
      )
    })
  }

  evaluate({ text, sha }: Script, keys: string[], args: string[], bound?: CallBound): Promise<unknown> {
    const client = this.#client
    if (this.isCluster) {
      // Route by the key, because version 4 does not find the key among a script's arguments.
      const send = (...words: string[]) =>
        client.sendCommand(keys[0], false, [...words, String(keys.length), ...keys, ...args])
      return evaluated(
        () => send('EVALSHA', sha),
        () => send('EVAL', text),
        bound,
      )
    }
    const call = { keys, arguments: args }
    return evaluated(
      () => client.evalSha(sha, call),
      () => client.eval(text, call),
      bound,
    )
  }

  async nodes(): Promise<readonly RedisCommand[]> {
    const client = this.#client
    if (client.getSentinelNode) return [(...words) => client.sendCommand(false, words)]
    if (!client.nodeClient) return [(...words) => client.sendCommand(words)]
    const masters = [...(client.masters ?? [])].sort((one, other) =>
      String(one.address) < String(other.address) ? -1 : 1,
    )
    const nodes = await Promise.all(masters.map(async (master) => client.nodeClient?.(master) ?? client))
    return nodes.map(
      (node) =>
        (...words) =>
          node.sendCommand(words),
    )
  }

  async subscribe(channel: string, onMessage: (message: string, channel: string) => void): Promise<void> {
    await this.#client.subscribe(channel, onMessage)
  }

  unsubscribe(channel: string): Promise<unknown> {
    return this.#client.unsubscribe(channel)
  }

  onLost(listener: (cause: unknown) => void): void {
    this.#listeners.add(listener)
  }

  hold(isBusy: boolean): void {
    if (isBusy) this.#client.ref?.()
    else this.#client.unref?.()
  }

  destroy(): void {
    if (this.#isDestroyed) return
    this.#isDestroyed = true
    // A client that is closed before it has a socket still opens the socket and can then no longer be closed. So wait
    // until it has the socket, or has failed.
    if (this.#isSingle && this.#connecting && !this.#hasSocket) return
    const end = () => void this.#end()
    end()
    // A cluster also keeps opening its other connections.
    if (!this.#isSingle) this.#connecting?.then(end, end)
  }

  /** Closes the clients of a cluster one by one, because the cluster's own method stops at the first closed client. */
  async #end(): Promise<void> {
    const client = this.#client
    const { masters = [], replicas = [], pubSubNode } = this.isCluster ? client : {}
    const members = [...masters, ...replicas, ...(pubSubNode ? [pubSubNode] : [])]
    const clients = members.flatMap((member) => [member.client, member.pubSub?.client, member.pubSubClient])
    await Promise.all([client, ...clients.filter((one) => one !== undefined)].map(ended))
  }

  #lose(): void {
    for (const listener of this.#listeners) listener(this.#cause ?? new Error('Connection is closed.'))
    this.#listeners.clear()
  }
}

async function ended(one: NodeRedis | Promise<NodeRedis>): Promise<void> {
  try {
    const client = await one
    await (client.destroy ?? client.disconnect)?.call(client)
  } catch {
    // It is already closed.
  }
}
