import type { CallBound } from '../../common/call-bound.ts'
import { PendingConnection, type RedisConnection } from './link.ts'

/** Receives the messages from a channel, then undefined once no more will arrive. */
export type MessageHandler = (message: string | undefined) => void

/**
 * A separate connection for subscriptions, because Redis accepts no other commands on a connection with subscriptions.
 * It is open while there are handlers.
 */
export class ChannelListener {
  readonly #open: () => Promise<RedisConnection>
  readonly #handlers = new Map<string, Set<MessageHandler>>()
  /** How many calls are waiting to be connected. While there are any, nobody else closes the connection. */
  #waiting = 0
  #connection: PendingConnection | undefined
  /**
   * One handler for all channels, because the client keeps every new handler of a channel for as long as it is
   * subscribed.
   */
  readonly #onMessage = (message: string, channel: string): void => {
    for (const handler of this.#handlers.get(channel) ?? []) handler(message)
  }

  constructor(open: () => Promise<RedisConnection>) {
    this.#open = open
  }

  /** Resolves once every message published from now on will be received. Returns a function that stops listening. */
  async listen(
    channelOf: (link: RedisConnection) => string,
    handler: MessageHandler,
    bound: CallBound,
  ): Promise<() => void> {
    const connection = (this.#connection ??= this.#connect())
    let link: RedisConnection
    try {
      this.#waiting += 1
      link = await bound.race(connection.ready)
    } catch (error) {
      if (this.#connection === connection && this.#waiting === 1 && this.#handlers.size === 0) this.close()
      throw error
    } finally {
      this.#waiting -= 1
    }
    const channel = channelOf(link)
    const handlers = this.#handlers.get(channel) ?? new Set()
    this.#handlers.set(channel, handlers.add(handler))
    const end = () => {
      handlers.delete(handler)
      // The channel may be in use on another connection by now.
      if (handlers.size > 0 || this.#handlers.get(channel) !== handlers) return
      this.#handlers.delete(channel)
      if (this.#handlers.size === 0 && this.#waiting === 0) this.close()
      else link.unsubscribe(channel).catch(() => {})
    }
    try {
      // Subscribe even if the channel is already subscribed, because that subscription may still be in flight.
      await bound.race(link.subscribe(channel, this.#onMessage))
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
    const handlers = [...this.#handlers.values()].flatMap((set) => [...set])
    this.#handlers.clear()
    for (const handler of handlers) handler(undefined)
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
