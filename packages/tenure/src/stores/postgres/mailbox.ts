import type { Clock } from '../../clock.ts'
import { everything } from './session.ts'

/** What a notification says: a record, that there is something to look at, or that no more will come. */
export type News = { readonly version: string; readonly text: string } | 'look' | 'closed'

/** Keeps the newest notification about one election until it is asked for. */
export class Mailbox {
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

  /** The next news; after `silenceMs` without any it is time to look. */
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

  /** Undefined if it is about another election. */
  #read(payload: string | undefined): News | undefined {
    if (payload === undefined) return 'closed'
    if (payload === everything || payload === `-${this.#election}`) return 'look'
    const [, version, text] = /^(\d+) (.+)$/s.exec(payload) ?? []
    if (version === undefined || text === undefined) return undefined
    if (!text.includes(`"election":${JSON.stringify(this.#election)}`)) return isRecord(text) ? undefined : 'look'
    return electionIn(text) === this.#election ? { version, text } : 'look'
  }
}

/** What somebody damaged may be the record of any election. */
function isRecord(text: string): boolean {
  return text.startsWith('{"format":')
}

/** Metadata may name another one. */
function electionIn(text: string): unknown {
  try {
    return (JSON.parse(text) as { election?: unknown } | null)?.election
  } catch {
    return undefined
  }
}
