import { answerByClock } from './clock-signal.ts'
import { invalidOption, LeadershipLostError, type LossReason } from '../common/errors.ts'
import { carryLimitBytes } from './check-values.ts'

/** What a leadership needs from the elector that created it. */
export interface LeadershipHost {
  readonly election: string
  readonly namespace?: string | undefined
  readonly identity: string
  /** The store's last error. Undefined if the store has answered since. */
  readonly storeError?: unknown
  /** Whether this term leads now, according to the clock. An expired leadership is ended before this returns. */
  leads(leadership: Leadership): boolean
  remainingMs(leadership: Leadership): number
  drainMs(leadership: Leadership): number
  /** How long this process did not run, if that is why its lease expired. Otherwise 0. */
  stalledMs(): number
  carry(leadership: Leadership): string
  /** Whether a checkpoint that is set now can still reach the store. */
  mayCarry(leadership: Leadership): boolean
  setCarry(leadership: Leadership, text: string): Promise<void>
  track(leadership: Leadership, work: Promise<unknown>): void
}

/**
 * One term of leadership. It is over once its signal has aborted.
 *
 * @example
 * const leadership = await elector.waitForLeadership()
 * leadership.waitUntil(work({ signal: leadership.signal, fence: leadership.term }))
 */
export class Leadership {
  /** The fencing token. Pass it to every resource that this leader writes to. */
  readonly term: number
  readonly #reign: LeadershipHost
  #controller: AbortController | undefined
  #loss: LeadershipLostError | undefined

  /** @internal */
  constructor(reign: LeadershipHost, term: number) {
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
   * Aborts when leadership ends, with a {@link LeadershipLostError} as its reason. Like `isLeader()`, its `aborted`,
   * `reason`, and `throwIfAborted()` check the clock. After a stall they report the end before any timer fires.
   */
  get signal(): AbortSignal {
    // Created on demand: ten thousand leaders whose code only calls isLeader() do not need one.
    if (!this.#controller) {
      this.#controller = new AbortController()
      if (this.#loss) this.#controller.abort(this.#loss)
      else answerByClock(this.#controller.signal, () => void this.isLeader())
    }
    return this.#controller.signal
  }

  /**
   * Whether this term leads now, according to the clock. If its lease is over, its signal has been aborted before this
   * returns.
   */
  isLeader(): boolean {
    // A re-elected elector reports the new leader shortly before its new leadership starts.
    return this.#loss === undefined && this.#reign.leads(this)
  }

  /** Throws a {@link LeadershipLostError} unless this term leads now. */
  throwIfLost(): void {
    if (!this.isLeader()) throw this.#lossNow()
  }

  /**
   * Registers work that must settle before the lease is released. Its rejection is reported as an event, not thrown.
   */
  waitUntil(work: Promise<unknown>): void {
    this.#reign.track(this, work)
  }

  /** The checkpoint: a small text that outlives this leadership. The next leader reads it here. */
  get carry(): string {
    return this.#reign.carry(this)
  }

  /**
   * Replaces the checkpoint and resolves once the store has saved it. After a rejection, it may or may not have been
   * saved. It can be set while leading, and by work that is winding down after `stop()` or `stepDown()`.
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

  /** The time until `isLeader()` turns false without a renewal. 0 once it has. */
  remainingMs(): number {
    return this.isLeader() ? this.#reign.remainingMs(this) : 0
  }

  /**
   * The time until another process may lead at the earliest. After the signal has aborted, this is the time left to
   * wind down.
   */
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
    // The store can be the cause only if the lease was not renewed.
    const cause = isExpired ? this.#reign.storeError : undefined
    return new LeadershipLostError(this.election, this.term, reason, cause, this.#reign.namespace, stalledMs)
  }

  #lossNow(): LeadershipLostError {
    // The clock may show the end before the timer that ends this term has fired.
    return this.#loss ?? this.#lossBy('expired')
  }
}

/**
 * Whether work rejected only because its signal aborted: with the loss of its own term, or with an AbortError caused by
 * that loss. Such work has not failed.
 */
export function isEndByRequest(cause: unknown, { election, term }: Leadership): boolean {
  try {
    const reason = cause instanceof Error && cause.name === 'AbortError' ? cause.cause : cause
    return reason instanceof LeadershipLostError && reason.election === election && reason.term === term
  } catch {
    // Work may throw anything, even a value whose properties throw when read.
    return false
  }
}
