import type { CallBound } from '../../common/call-bound.ts'
import { evaluated, type RedisCommand, type RedisConnection } from './link.ts'
import type { Script } from './scripts.ts'

/** The part of a `Redis` or `Cluster` that is used. */
interface Ioredis {
  readonly status: string
  readonly options?: { readonly keyPrefix?: string | undefined; readonly db?: number | undefined }
  /** On a single connection: the database that was selected last, or is about to be selected. */
  readonly condition?: { readonly select?: number | undefined } | null
  readonly stream?: { ref?(): void; unref?(): void } | null
  connect(): Promise<void>
  disconnect(): void
  eval(script: string, keys: number, ...rest: string[]): Promise<unknown>
  evalsha(sha: string, keys: number, ...rest: string[]): Promise<unknown>
  call(...words: string[]): Promise<unknown>
  subscribe(channel: string): Promise<unknown>
  unsubscribe(channel: string): Promise<unknown>
  nodes?(role: 'master'): (Ioredis & { readonly options: { readonly host?: string; readonly port?: number } })[]
  on(event: string, listener: (...values: unknown[]) => void): unknown
}

/** Adapts a client of `ioredis`. */
export class IoredisConnection implements RedisConnection {
  readonly keyPrefix: string
  readonly #client: Ioredis
  readonly isCluster: boolean
  readonly #channels = new Map<string, (message: string, channel: string) => void>()
  #cause: unknown

  constructor(client: unknown, isCluster: boolean) {
    this.#client = client as Ioredis
    this.isCluster = isCluster
    this.keyPrefix = this.#client.options?.keyPrefix ?? ''
    // The first error is the reason, and the others follow from it.
    this.#client.on('error', (error) => void (this.#cause ??= reasonOf(error)))
    this.#client.on('message', (channel, message) =>
      this.#channels.get(String(channel))?.(String(message), String(channel)),
    )
  }

  async connect(): Promise<void> {
    await this.#becomeReady()
    await this.#selectDatabase()
  }

  async #becomeReady(): Promise<void> {
    const client = this.#client
    if (client.status === 'ready') return
    await new Promise<void>((resolve, reject) => {
      const fail = (error?: unknown) => reject(this.#cause ?? error ?? new Error('Connection is closed.'))
      client.on('ready', () => resolve())
      client.on('close', fail)
      client.on('end', fail)
      if (client.status === 'wait') client.connect().catch(fail)
    })
  }

  /**
   * Selects the database again, explicitly. The client selects it by itself but stays in database 0 if that is refused,
   * and would then lead alongside candidates in the right database. Here, a refusal closes the connection.
   */
  async #selectDatabase(): Promise<void> {
    const { condition, options } = this.#client
    const database = condition?.select ?? options?.db ?? 0
    if (!this.isCluster && database !== 0) await this.#client.call('SELECT', String(database))
  }

  evaluate({ text, sha }: Script, keys: string[], args: string[], bound?: CallBound): Promise<unknown> {
    const rest = [...keys, ...args]
    return evaluated(
      () => this.#client.evalsha(sha, keys.length, ...rest),
      () => this.#client.eval(text, keys.length, ...rest),
      bound,
    )
  }

  async nodes(): Promise<readonly RedisCommand[]> {
    const client = this.#client
    if (!this.isCluster || !client.nodes) return [(...words) => client.call(...words)]
    const nameOf = ({ options: { host, port } }: { options: { host?: string; port?: number } }) => `${host}:${port}`
    const nodes = client.nodes('master').toSorted((one, other) => (nameOf(one) < nameOf(other) ? -1 : 1))
    return nodes.map(
      (node) =>
        (...words) =>
          node.call(...words),
    )
  }

  async subscribe(channel: string, onMessage: (message: string, channel: string) => void): Promise<void> {
    this.#channels.set(channel, onMessage)
    await this.#client.subscribe(channel)
  }

  unsubscribe(channel: string): Promise<unknown> {
    this.#channels.delete(channel)
    return this.#client.unsubscribe(channel)
  }

  onLost(listener: (cause: unknown) => void): void {
    this.#client.on('close', () => listener(this.#cause))
    this.#client.on('end', () => listener(this.#cause))
  }

  hold(isBusy: boolean): void {
    const { stream } = this.#client
    if (isBusy) stream?.ref?.()
    else stream?.unref?.()
  }

  destroy(): void {
    this.#client.disconnect()
  }
}

/** A cluster that is unreachable reports the reason in the error of its last node. */
function reasonOf(error: unknown): unknown {
  return error instanceof Error ? (Reflect.get(error, 'lastNodeError') ?? error) : error
}
