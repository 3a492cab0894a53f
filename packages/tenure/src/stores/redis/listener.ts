import type { Bound } from '../../clients/http/bound.ts'
import { PendingConnection, type Link } from './link.ts'

/** Receives the messages of a channel, then undefined once no more will arrive. */
export type MessageHandler = (message: string | undefined) => void

/**
 * The connection for subscriptions, because Redis accepts no other commands on it. It is open while there are
 * listeners.
 */
export class Listener {
  readonly #open: () => Promise<Link>
  readonly #ears = new Map<string, Set<MessageHandler>>()
  /** How many calls are waiting to be connected. While there are any, nobody else closes the connection. */
  #waiting = 0
  #connection: PendingConnection | undefined
  /** One handler for all channels: the client keeps every new handler of a channel for as long as it is subscribed. */
  readonly #hear = (message: string, channel: string): void => {
    for (const ear of this.#ears.get(channel) ?? []) ear(message)
  }

  constructor(open: () => Promise<Link>) {
    this.#open = open
  }

  /** Resolves once every message published from now on will be received. Returns a function that stops listening. */
  async listen(channelOf: (link: Link) => string, ear: MessageHandler, bound: Bound): Promise<() => void> {
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
      // The channel may be in use on another connection by now.
      if (ears.size > 0 || this.#ears.get(channel) !== ears) return
      this.#ears.delete(channel)
      if (this.#ears.size === 0 && this.#waiting === 0) this.close()
      else link.unsubscribe(channel).catch(() => {})
    }
    try {
      // Subscribe even if the channel is already subscribed: that subscription may still be in flight.
      await bound.race(link.subscribe(channel, this.#hear))
    } catch (error) {
      end()
      throw error
    }
    return end
  }

  /** Closes the connection, which ends every watch on it. */
  close(): void {
    const connection = this.#connection
    this.#connection = undefined
    const ears = [...this.#ears.values()].flatMap((set) => [...set])
    this.#ears.clear()
    for (const ear of ears) ear(undefined)
    connection?.destroy()
  }

  #connect(): PendingConnection {
    const connection = new PendingConnection(this.#open())
    connection.onLost(() => {
      if (this.#connection === connection) this.close()
    })
    return connection
  }
}
