import type { Bound } from '../../http/bound.ts'
import { evaluated, type Command, type Link } from './link.ts'
import type { Script } from './script.ts'

interface Evaluated {
  readonly keys: string[]
  readonly arguments: string[]
}

/** A server of a cluster, with its clients. */
interface Member {
  readonly address?: string
  readonly client?: NodeRedis | Promise<NodeRedis>
  readonly pubSub?: { readonly client?: NodeRedis }
  readonly pubSubClient?: NodeRedis | Promise<NodeRedis>
}

/** What is used of a client, a cluster or a sentinel. */
interface NodeRedis {
  readonly isOpen?: boolean
  connect(): Promise<unknown>
  /** Closes at once. In version 4 it is called `disconnect`, and gives a promise. */
  destroy?(): unknown
  disconnect?(): Promise<unknown>
  ref?(): void
  unref?(): void
  eval(script: string, call: Evaluated): Promise<unknown>
  evalSha(sha: string, call: Evaluated): Promise<unknown>
  sendCommand(...args: unknown[]): Promise<unknown>
  subscribe(channel: string, listener: (message: string, channel: string) => void): Promise<unknown>
  unsubscribe(channel: string): Promise<unknown>
  readonly masters?: readonly Member[]
  readonly replicas?: readonly Member[]
  readonly pubSubNode?: Member | undefined
  nodeClient?(node: object): NodeRedis | Promise<NodeRedis>
  getSentinelNode?: unknown
  on(event: string, listener: (...values: unknown[]) => void): unknown
}

/** A client of `redis` as the store uses it. */
export class NodeRedisLink implements Link {
  readonly keyPrefix = ''
  readonly isCluster: boolean
  readonly #client: NodeRedis
  readonly #isSingle: boolean
  readonly #listeners = new Set<(cause: unknown) => void>()
  #cause: unknown
  /** Undefined until it is begun. */
  #connecting: Promise<unknown> | undefined
  #hasSocket = false
  #isDestroyed = false

  constructor(client: unknown) {
    this.#client = client as NodeRedis
    this.isCluster = this.#client.nodeClient !== undefined
    this.#isSingle = !this.isCluster && !this.#client.getSentinelNode
    this.#client.on('error', (error) => {
      this.#cause ??= error
      // A cluster, or what asks sentinels, goes on when one of its connections fails.
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
      // A client that tries again and again would never say why it cannot.
      this.#listeners.add((cause) => reject(cause))
      this.#connecting = client.connect()
      this.#connecting.then(
        () => resolve(),
        (error: unknown) => reject((this.#isSingle ? (this.#cause ?? error) : error) as Error),
      )
    })
  }

  evaluate({ text, sha }: Script, keys: string[], args: string[], bound?: Bound): Promise<unknown> {
    const client = this.#client
    if (this.isCluster) {
      // By the key, which version 4 does not find in a script's arguments by itself.
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

  async nodes(): Promise<readonly Command[]> {
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
    // A client that is closed before it has a socket opens that all the same, and cannot be closed any more: once it
    // has it, or has failed.
    if (this.#isSingle && this.#connecting && !this.#hasSocket) return
    const end = () => void this.#end()
    end()
    // A cluster opens the others all the same, too.
    if (!this.#isSingle) this.#connecting?.then(end, end)
  }

  /** A cluster gives up at the first of its clients that is closed already: they are closed one by one. */
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
    // It is closed already.
  }
}
