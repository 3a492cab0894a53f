import type { Clock } from '../../clock.ts'
import type { Bound } from '../../http/bound.ts'

/** A message, that there was none for long, or that no more will come. */
export type News = { readonly message: string } | 'silence' | 'closed'

/** Keeps the newest message of a channel until it is asked for. */
export class Mailbox {
  #news: News | undefined
  #wake: (() => void) | undefined

  /** Undefined: no more will come. */
  put(message: string | undefined): void {
    if (this.#news === 'closed') return
    this.#news = message === undefined ? 'closed' : { message }
    this.#wake?.()
  }

  /** The next message, or `silence` if there was none for `silenceMs`. Rejects when its bound ends. */
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
