import { AsyncQueue } from '@tenure/internal/async-queue'
import type { Clock } from '../../common/clock.ts'
import { readAllPayload } from './session.ts'

/**
 * The content of a notification: a record, a request to read the state, or the information that no more will arrive.
 */
export type PostgresNotification = { readonly version: string; readonly text: string } | 'look' | 'closed'

/** Holds the newest notification about one election until it is read. */
export class LatestNotification {
  readonly #election: string
  readonly #news = new AsyncQueue<Exclude<PostgresNotification, 'closed'>>('latest')

  constructor(election: string) {
    this.#election = election
  }

  put(payload: string | undefined): void {
    const news = this.#read(payload)
    if (news === 'closed') this.#news.end()
    else if (news !== undefined) this.#news.put(news)
  }

  /** The next notification, or `look` after `silenceMs` without one. */
  async next(silenceMs: number, clock: Clock): Promise<PostgresNotification> {
    await this.#news.readyWithin(clock, silenceMs)
    return this.#news.isEnded ? 'closed' : (this.#news.take() ?? 'look')
  }

  /** Decodes a payload. Returns undefined if it is about another election. */
  #read(payload: string | undefined): PostgresNotification | undefined {
    if (payload === undefined) return 'closed'
    if (payload === readAllPayload || payload === `-${this.#election}`) return 'look'
    const [, version, text] = /^(\d+) (.+)$/s.exec(payload) ?? []
    if (version === undefined || text === undefined) return undefined
    if (!text.includes(`"election":${JSON.stringify(this.#election)}`)) return isRecord(text) ? undefined : 'look'
    return electionIn(text) === this.#election ? { version, text } : 'look'
  }
}

/** Whether the text is a record. Damaged text is not, and may belong to any election. */
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
