import type { Bound } from '../../http/bound.ts'
import { Connection, type Link } from './link.ts'

/** What is heard on a channel: a message, or undefined once nothing will be heard any more. */
export type Ear = (message: string | undefined) => void

/** The connection for messages: Redis takes no other commands on one that listens. It is open while somebody listens. */
export class Listener {
  readonly #open: () => Promise<Link>
  readonly #ears = new Map<string, Set<Ear>>()
  /** How many wait to be connected. Others that end, or are given up, leave the connection to them. */
  #waiting = 0
  #connection: Connection | undefined
  /** One for all: a client keeps each listener of a channel that it has not seen yet, as long as the channel is heard. */
  readonly #hear = (message: string, channel: string): void => {
    for (const ear of this.#ears.get(channel) ?? []) ear(message)
  }

  constructor(open: () => Promise<Link>) {
    this.#open = open
  }

  /** Resolves once everything that is published from now on is heard; gives what ends it. */
  async listen(channelOf: (link: Link) => string, ear: Ear, bound: Bound): Promise<() => void> {
    const connection = (this.#connection ??= this.#connect())
    let link: Link
    try {
      this.#waiting += 1
      link = await bound.race(connection.ready)
    } catch (error) {
      if (this.#connection === connection && this.#waiting === 1 && this.#ears.size === 0) this.close()
      throw error
    } finally {
      this.#waiting -= 1
    }
    const channel = channelOf(link)
    const ears = this.#ears.get(channel) ?? new Set()
    this.#ears.set(channel, ears.add(ear))
    const end = () => {
      ears.delete(ear)
      // By now the channel may be listened to on another connection.
      if (ears.size > 0 || this.#ears.get(channel) !== ears) return
      this.#ears.delete(channel)
      if (this.#ears.size === 0 && this.#waiting === 0) this.close()
      else link.unsubscribe(channel).catch(() => {})
    }
    try {
      // Even where it was subscribed to already: that may still be under way.
      await bound.race(link.subscribe(channel, this.#hear))
    } catch (error) {
      end()
      throw error
    }
    return end
  }

  /** Ends the connection, and so every watch on it. */
  close(): void {
    const connection = this.#connection
    this.#connection = undefined
    const ears = [...this.#ears.values()].flatMap((set) => [...set])
    this.#ears.clear()
    for (const ear of ears) ear(undefined)
    connection?.destroy()
  }

  #connect(): Connection {
    const connection = new Connection(this.#open())
    connection.onLost(() => {
      if (this.#connection === connection) this.close()
    })
    return connection
  }
}
