import { isTenureError } from '../../common/errors.ts'
import type { CallBound } from '../../common/call-bound.ts'
import { PendingConnection, replyCodeOf, type RedisConnection } from './link.ts'

interface SharedConnection {
  readonly connection: PendingConnection
  /** The pending calls, each by the function that rejects it when the connection is lost. */
  readonly calls: Set<(cause: unknown) => void>
  /** No new calls are sent on this connection. It is closed after its last pending call. */
  isRetired: boolean
}

/** Error codes after which another connection may help: to the primary, or with another password. */
const misplaced = new Set(['READONLY', 'MASTERDOWN', 'LOADING', 'CLUSTERDOWN', 'NOAUTH', 'WRONGPASS'])

/**
 * Keeps one connection at a time, opened when needed. An abandoned call closes its connection: commands that are still
 * queued are never sent, and a half-open connection does not delay the next call.
 */
export class RedisConnections {
  readonly #open: () => Promise<RedisConnection>
  #current: SharedConnection | undefined

  constructor(open: () => Promise<RedisConnection>) {
    this.#open = open
  }

  /** Runs one action, at most until its bound ends. */
  async use<T>(bound: CallBound, action: (link: RedisConnection) => Promise<T>): Promise<T> {
    const shared = (this.#current ??= this.#connect())
    let lose = (_cause: unknown): void => undefined
    try {
      return await new Promise<T>((resolve, reject) => {
        lose = reject
        shared.calls.add(lose)
        bound.onEnd(lose)
        const begin = (link: RedisConnection) => {
          if (bound.ended) return
          link.hold(true)
          action(link).then(resolve, reject)
        }
        const { link, ready } = shared.connection
        if (link) begin(link)
        else ready.then(begin, reject)
      })
    } catch (error) {
      if (bound.ended || isBroken(error)) this.#retire(shared)
      throw error
    } finally {
      shared.calls.delete(lose)
      settle(shared)
    }
  }

  /** Pending calls keep their connection until they end. */
  close(): void {
    if (this.#current) this.#retire(this.#current)
  }

  #connect(): SharedConnection {
    const shared: SharedConnection = {
      connection: new PendingConnection(this.#open()),
      calls: new Set(),
      isRetired: false,
    }
    shared.connection.onLost((cause) => this.#lose(shared, cause))
    return shared
  }

  /**
   * Destroys a lost connection. A client that reconnects by itself would continue a half-finished call elsewhere, for
   * example on another primary.
   */
  #lose(shared: SharedConnection, cause: unknown): void {
    this.#retire(shared)
    shared.connection.destroy()
    for (const lose of shared.calls) lose(cause ?? new Error('Connection is closed.'))
  }

  #retire(shared: SharedConnection): void {
    if (this.#current === shared) this.#current = undefined
    shared.isRetired = true
    settle(shared)
  }
}

function settle({ connection, calls, isRetired }: SharedConnection): void {
  if (calls.size > 0) return
  if (isRetired) connection.destroy()
  else connection.link?.hold(false)
}

/** True if the connection caused the error, false if the command did. */
function isBroken(error: unknown): boolean {
  const code = replyCodeOf(error)
  return !isTenureError(error) && (code === '' || misplaced.has(code))
}
