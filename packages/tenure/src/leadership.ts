import { answerByClock } from './clocked-signal.ts'
import { invalidOption, LeadershipLostError, type LossReason } from './errors.ts'
import { carryLimitBytes } from './options.ts'

/** What a leadership asks of the elector that made it. */
export interface Reign {
  readonly election: string
  readonly namespace?: string | undefined
  readonly identity: string
  /** The last error of the store, if it has not answered since. */
  readonly storeError?: unknown
  /** Whether it leads by the clock. A leadership that is over is ended before this returns. */
  leads(leadership: Leadership): boolean
  remainingMs(leadership: Leadership): number
  drainMs(leadership: Leadership): number
  /** How long this process did not run, if that is why its lease expired; otherwise 0. */
  stalledMs(): number
  carry(leadership: Leadership): string
  /** Whether a text that is set now can still reach the store. */
  mayCarry(leadership: Leadership): boolean
  setCarry(leadership: Leadership, text: string): Promise<void>
  track(leadership: Leadership, work: Promise<unknown>): void
}

/**
 * One term of leadership. It is over for good once its signal has aborted.
 *
 * @example
 * const leadership = await elector.waitForLeadership()
 * leadership.waitUntil(work({ signal: leadership.signal, fence: leadership.term }))
 */
export class Leadership {
  /** The fencing token. Hand it to whatever this leader writes to. */
  readonly term: number
  readonly #reign: Reign
  #controller: AbortController | undefined
  #loss: LeadershipLostError | undefined

  /** @internal */
  constructor(reign: Reign, term: number) {
    this.#reign = reign
    this.term = term
  }

  get election(): string {
    return this.#reign.election
  }

  get identity(): string {
    return this.#reign.identity
  }

  /**
   * Aborts when leadership ends, with a {@link LeadershipLostError} as its reason. Its `aborted`, `reason` and
   * `throwIfAborted()` look at the clock, as `isLeader()` does: after a stall they tell of the end before any timer does.
   */
  get signal(): AbortSignal {
    // Made on demand: ten thousand leaders whose code only asks isLeader() need none.
    if (!this.#controller) {
      this.#controller = new AbortController()
      if (this.#loss) this.#controller.abort(this.#loss)
      else answerByClock(this.#controller.signal, () => void this.isLeader())
    }
    return this.#controller.signal
  }

  /** Whether this term leads now, by the clock. If its lease is over, its signal has aborted when this returns. */
  isLeader(): boolean {
    // An elector that is elected again reports the new leader a moment before the new leadership begins.
    return this.#loss === undefined && this.#reign.leads(this)
  }

  /** Throws a {@link LeadershipLostError} unless this term leads now. */
  throwIfLost(): void {
    if (!this.isLeader()) throw this.#lossNow()
  }

  /** Registers work that must settle before the lease is released. What it rejects with is reported, not thrown. */
  waitUntil(work: Promise<unknown>): void {
    this.#reign.track(this, work)
  }

  /** A small text that outlives this leadership: the next leader finds it here. */
  get carry(): string {
    return this.#reign.carry(this)
  }

  /**
   * Replaces the carry; resolves once the store has it. A rejection means that it may or may not have been stored. It can
   * be replaced while leading, and by work that winds down after `stop()` or `stepDown()`.
   */
  async setCarry(text: string): Promise<void> {
    if (typeof text !== 'string' || Buffer.byteLength(text) > carryLimitBytes || !text.isWellFormed()) {
      throw invalidOption('carry', text, `it must be well-formed text of at most ${carryLimitBytes} bytes`)
    }
    this.throwUnlessCarrying()
    await this.#reign.setCarry(this, text)
  }

  /** @internal */
  throwUnlessCarrying(): void {
    if (!this.#reign.mayCarry(this)) throw this.#lossNow()
  }

  /** How long until `isLeader()` turns false unless the lease is renewed; 0 once it has. */
  remainingMs(): number {
    return this.isLeader() ? this.#reign.remainingMs(this) : 0
  }

  /** How long until others may lead at the earliest: the time left to wind down once the signal has aborted. */
  drainMs(): number {
    return this.#reign.drainMs(this)
  }

  /** @internal */
  end(reason: LossReason): LeadershipLostError {
    this.#loss ??= this.#lossBy(reason)
    this.#controller?.abort(this.#loss)
    return this.#loss
  }

  /** @internal */
  get loss(): LeadershipLostError | undefined {
    return this.#loss
  }

  #lossBy(reason: LossReason): LeadershipLostError {
    const isExpired = reason === 'expired'
    const stalledMs = isExpired ? this.#reign.stalledMs() : 0
    // Only a lease that was not renewed was lost because of the store.
    const cause = isExpired ? this.#reign.storeError : undefined
    return new LeadershipLostError(this.election, this.term, reason, cause, this.#reign.namespace, stalledMs)
  }

  #lossNow(): LeadershipLostError {
    // The clock may say so before the timer that ends this term has run.
    return this.#loss ?? this.#lossBy('expired')
  }
}

/** Work that ends because its signal aborted, with the loss of its term or an AbortError for that, has not failed. */
export function isEndByRequest(cause: unknown, { election, term }: Leadership): boolean {
  try {
    const reason = cause instanceof Error && cause.name === 'AbortError' ? cause.cause : cause
    return reason instanceof LeadershipLostError && reason.election === election && reason.term === term
  } catch {
    // Work may throw anything, even what cannot be looked at.
    return false
  }
}
