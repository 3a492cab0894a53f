import { pause } from '@tenure/internal/pause'
import type { Clock } from 'tenure'

/** What {@link HeardTerms} takes. */
export interface HeardTermsOptions {
  readonly clock: Clock
  /** How long to wait before a storage is asked again that did not answer. */
  readonly retryMs: number
  /** Aborts when this replica stops. */
  readonly signal: AbortSignal
  /** Of the storage's head, as a linearizable read. */
  headTerm(): Promise<number>
  /** Of the newest record of the election that is known here; 0 where there is none. */
  recordTerm(): number
  /** Called in the step in which a higher term is obeyed. */
  onHigher(term: number): void
  /** Called when a term turned out to be nobody's. */
  onForgotten(term: number): void
}

/**
 * The highest term of an active replica that was seen anywhere.
 *
 * What another replica says is obeyed in the same step: a successor may be there that this one cannot know of, because
 * its clocks stood still. But it is only what somebody said. A broken peer may name any number, and after a restore the
 * terms are lower than before; if such a term were obeyed for ever, this replica would never be active again. So it is
 * held against the storage's head and the record of the election, and forgotten where both are lower.
 *
 * That is safe: the reign that was to end has ended, and each later one is granted by the election and swaps a head that
 * is lower than its own term. From then on terms as high as the one that was nobody's are asked about *before* they are
 * obeyed, so that replicas that tell it each other end no further reign.
 */
export class HeardTerms {
  readonly #options: HeardTermsOptions
  #highest = 0
  /** From here on, terms are asked about before they are obeyed. */
  #doubtedFrom = Infinity
  /** The highest one that waits for that. */
  #doubted = 0
  /** How often a term was obeyed: what was read before the last time says nothing about it. */
  #heard = 0
  #isChecking = false

  constructor(options: HeardTermsOptions) {
    this.#options = options
  }

  get highest(): number {
    return this.#highest
  }

  /** Somebody said so. Whether it is obeyed, for now. */
  heard(term: number): boolean {
    if (term <= this.#highest) return true
    const isDoubted = term >= this.#doubtedFrom
    if (isDoubted) this.#doubted = Math.max(this.#doubted, term)
    else this.#obey(term)
    void this.#check()
    return !isDoubted
  }

  /** The election's own record says so. */
  found(term: number): void {
    if (term >= this.#doubtedFrom) this.#doubtedFrom = Infinity
    if (term > this.#highest) this.#obey(term)
    else this.look()
  }

  /** Asks again where the election knows of lower terms only. */
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
    this.#options.onForgotten(forgotten)
  }
}
