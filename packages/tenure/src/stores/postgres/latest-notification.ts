import type { Clock } from '../../common/clock.ts'
import { everything } from './session.ts'

/** The content of a notification: a record, a request to read the state, or the fact that no more will arrive. */
export type News = { readonly version: string; readonly text: string } | 'look' | 'closed'

/** Holds the newest notification about one election until it is read. */
export class LatestNotification {
  readonly #election: string
  #news: News | undefined
  #wake: (() => void) | undefined

  constructor(election: string) {
    this.#election = election
  }

  put(payload: string | undefined): void {
    const news = this.#read(payload)
    if (news === undefined || this.#news === 'closed') return
    this.#news = news
    this.#wake?.()
  }

  /** The next notification, or `look` after `silenceMs` without one. */
  async next(silenceMs: number, clock: Clock): Promise<News> {
    const put = new Promise<void>((resolve) => {
      this.#wake = resolve
      if (this.#news !== undefined) resolve()
    })
    const timer = clock.setTimer(silenceMs, () => this.put(everything))
    await put
    timer.cancel()
    const news = this.#news ?? 'look'
    if (news !== 'closed') this.#news = undefined
    return news
  }

  /** Undefined if the notification is about another election. */
  #read(payload: string | undefined): News | undefined {
    if (payload === undefined) return 'closed'
    if (payload === everything || payload === `-${this.#election}`) return 'look'
    const [, version, text] = /^(\d+) (.+)$/s.exec(payload) ?? []
    if (version === undefined || text === undefined) return undefined
    if (!text.includes(`"election":${JSON.stringify(this.#election)}`)) return isRecord(text) ? undefined : 'look'
    return electionIn(text) === this.#election ? { version, text } : 'look'
  }
}

/** False for damaged text, which may belong to any election. */
function isRecord(text: string): boolean {
  return text.startsWith('{"format":')
}

/** Reads the actual field, because metadata may contain the same text for another election. */
function electionIn(text: string): unknown {
  try {
    return (JSON.parse(text) as { election?: unknown } | null)?.election
  } catch {
    return undefined
  }
}
