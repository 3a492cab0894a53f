import { pause } from '@tenure/internal/pause'
import type { Clock } from 'tenure'

/** The options of {@link TermAnnouncements}. */
export interface TermAnnouncementsOptions {
  readonly clock: Clock
  /** How long to wait after a failure before reading the storage again. */
  readonly retryMs: number
  /** Aborts when this replica stops. */
  readonly signal: AbortSignal
  /** Returns the term of the storage's head, from a linearizable read. */
  headTerm(): Promise<number>
  /** Returns the term of the newest election record that this replica knows, or 0 if there is none. */
  recordTerm(): number
  /** Called synchronously when a higher term is accepted. */
  onHigher(term: number): void
  /** Called when the highest term turned out to belong to no replica and was lowered. */
  onForgotten(): void
}

/** The terms that connections to other replicas report and query. */
export interface KnownTerms {
  /** A replica with a lower term is no longer active, even if it does not know that yet. */
  readonly highest: number
  /** Records a term that another replica reported. Returns whether it is accepted for now. */
  observe(term: number): boolean
}

/**
 * The highest known term of an active replica, from this replica's own election or from another replica.
 *
 * A term that another replica reports is accepted at once: there may be a successor that this replica does not know,
 * because its clocks were stopped. But the report may be wrong. A broken peer may send any number, and after a restore
 * the terms are lower than before. If such a term were accepted permanently, this replica would never be active again.
 * So a reported term is compared with the storage's head and the election's record, and is dropped if both are lower.
 *
 * Dropping it is safe: the active term that had to end has ended, and each later one is granted by the election and
 * swaps a head whose term is lower than its own. From then on, terms as high as the dropped one are verified *before*
 * they are accepted, so replicas that keep repeating it to each other end no further active term.
 */
export class TermAnnouncements implements KnownTerms {
  readonly #options: TermAnnouncementsOptions
  #highest = 0
  /** Terms at or above this one are verified before they are accepted. */
  #doubtedFrom = Infinity
  /** The highest term that waits for verification. */
  #doubted = 0
  /** How many terms have been accepted so far. A head that was read before the last of them says nothing about it. */
  #heard = 0
  #isChecking = false

  constructor(options: TermAnnouncementsOptions) {
    this.#options = options
  }

  get highest(): number {
    return this.#highest
  }

  observe(term: number): boolean {
    if (term <= this.#highest) return true
    const isDoubted = term >= this.#doubtedFrom
    if (isDoubted) this.#doubted = Math.max(this.#doubted, term)
    else this.#obey(term)
    void this.#check()
    return !isDoubted
  }

  /** Records a term from the election's own record. */
  found(term: number): void {
    if (term >= this.#doubtedFrom) this.#doubtedFrom = Infinity
    if (term > this.#highest) this.#obey(term)
    else this.look()
  }

  /** Repeats the verification while the election's record has a lower term than the highest known one. */
  look(): void {
    if (this.#options.recordTerm() < this.#highest) void this.#check()
  }

  #obey(term: number): void {
    this.#heard += 1
    this.#highest = term
    this.#options.onHigher(term)
  }

  async #check(): Promise<void> {
    if (this.#isChecking) return
    this.#isChecking = true
    const { clock, retryMs, signal, headTerm } = this.#options
    for (let isOver = false; !isOver && !signal.aborted;) {
      const heard = this.#heard
      const term = await headTerm().catch(() => undefined)
      isOver = term !== undefined && heard === this.#heard
      if (isOver) this.#judge(term ?? 0)
      else if (term === undefined) await pause(clock, retryMs, signal)
    }
    this.#isChecking = false
  }

  #judge(headTerm: number): void {
    const known = Math.max(headTerm, this.#options.recordTerm())
    if (known >= this.#doubtedFrom) this.#doubtedFrom = Infinity
    const doubted = this.#doubted
    this.#doubted = 0
    if (doubted > this.#highest && doubted <= known) this.#obey(doubted)
    const forgotten = this.#highest
    if (forgotten <= known) return
    this.#doubtedFrom = Math.min(this.#doubtedFrom, forgotten)
    this.#highest = known
    this.#options.onForgotten()
  }
}
