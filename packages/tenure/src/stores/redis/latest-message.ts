import { AsyncQueue } from '@tenure/internal/async-queue'
import type { Clock } from '../../common/clock.ts'

/** A message, the information that none arrived for a while, or the information that no more will arrive. */
export type RedisMessage = { readonly message: string } | 'silence' | 'closed'

/** Holds the newest message from a channel until it is read. */
export class LatestMessage {
  readonly #messages = new AsyncQueue<string>('latest')

  /** Undefined means that no more messages will arrive. */
  put(message: string | undefined): void {
    if (message === undefined) this.#messages.end()
    else this.#messages.put(message)
  }

  /** The next message, or `silence` if none arrived for `silenceMs`. */
  async next(silenceMs: number, clock: Clock): Promise<RedisMessage> {
    await this.#messages.readyWithin(clock, silenceMs, { background: true })
    if (this.#messages.isEnded) return 'closed'
    const message = this.#messages.take()
    return message === undefined ? 'silence' : { message }
  }
}
