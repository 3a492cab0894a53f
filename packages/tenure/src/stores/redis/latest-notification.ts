import type { Clock } from '../../common/clock.ts'
import type { Bound } from '../../clients/http/bound.ts'

/** A message, the fact that none arrived for a while, or the fact that no more will arrive. */
export type News = { readonly message: string } | 'silence' | 'closed'

/** Holds the newest message of a channel until it is read. */
export class LatestMessage {
  #news: News | undefined
  #wake: (() => void) | undefined

  /** Undefined means that no more messages will arrive. */
  put(message: string | undefined): void {
    if (this.#news === 'closed') return
    this.#news = message === undefined ? 'closed' : { message }
    this.#wake?.()
  }

  /** The next message, or `silence` if none arrived for `silenceMs`. Rejects when its bound ends. */
  async next(silenceMs: number, clock: Clock, bound: Bound): Promise<News> {
    const put = new Promise<void>((resolve) => {
      this.#wake = resolve
      if (this.#news !== undefined) resolve()
    })
    const timer = clock.setTimer(silenceMs, () => this.#wake?.(), { background: true })
    try {
      await bound.race(put)
    } finally {
      timer.cancel()
    }
    const news = this.#news ?? 'silence'
    if (news !== 'closed') this.#news = undefined
    return news
  }
}
