import { isTenureError } from '../../errors.ts'
import type { Bound } from '../../http/bound.ts'
import { Connection, replyCodeOf, type Link } from './link.ts'

interface Shared {
  readonly connection: Connection
  /** Those that still wait, by what ends their waiting when the connection is lost. */
  readonly calls: Set<(cause: unknown) => void>
  /** No call is sent here any more; it is closed with the last one that still waits. */
  isRetired: boolean
}

/** What a server says where another connection may help: to the primary, or with another password. */
const misplaced = new Set(['READONLY', 'MASTERDOWN', 'LOADING', 'CLUSTERDOWN', 'NOAUTH', 'WRONGPASS'])

/**
 * One connection at a time, opened when it is needed. A call that is given up takes its connection with it: what waits
 * there, in whichever queue, is never sent, and the next call is not held up by a connection that is only half open.
 */
export class Connections {
  readonly #open: () => Promise<Link>
  #current: Shared | undefined

  constructor(open: () => Promise<Link>) {
    this.#open = open
  }

  /** Runs one action, for no longer than its bound. */
  async use<T>(bound: Bound, action: (link: Link) => Promise<T>): Promise<T> {
    const shared = (this.#current ??= this.#connect())
    let lose = (_cause: unknown): void => undefined
    try {
      return await new Promise<T>((resolve, reject) => {
        lose = reject
        shared.calls.add(lose)
        bound.onEnd(lose)
        const begin = (link: Link) => {
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

  /** Calls that still wait keep theirs until they end. */
  close(): void {
    if (this.#current) this.#retire(this.#current)
  }

  #connect(): Shared {
    const shared: Shared = { connection: new Connection(this.#open()), calls: new Set(), isRetired: false }
    shared.connection.onLost((cause) => this.#lose(shared, cause))
    return shared
  }

  /** A client that connects again by itself would go on with half a call elsewhere: at another primary, say. */
  #lose(shared: Shared, cause: unknown): void {
    this.#retire(shared)
    shared.connection.destroy()
    for (const lose of shared.calls) lose(cause ?? new Error('Connection is closed.'))
  }

  #retire(shared: Shared): void {
    if (this.#current === shared) this.#current = undefined
    shared.isRetired = true
    settle(shared)
  }
}

function settle({ connection, calls, isRetired }: Shared): void {
  if (calls.size > 0) return
  if (isRetired) connection.destroy()
  else connection.link?.hold(false)
}

/** Whether the connection is to blame, rather than what was asked of it. */
function isBroken(error: unknown): boolean {
  const code = replyCodeOf(error)
  return !isTenureError(error) && (code === '' || misplaced.has(code))
}
