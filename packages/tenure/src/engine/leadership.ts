import { answerByClock } from './clock-signal.ts'
import { invalidOption, LeadershipLostError, type LossReason } from '../common/errors.ts'
import type { StepDownOptions } from './step-down.ts'

/** The elector's functions that a leadership needs. */
export interface LeadershipHost {
  readonly election: string
  readonly namespace?: string | undefined
  readonly identity: string
  /** The maximum size of a checkpoint, in UTF-8. */
  readonly checkpointLimitBytes: number
  /** The store's last error. Undefined if the store has answered since. */
  readonly storeError?: unknown
  /** Whether this term leads now, according to the clock. An expired leadership is ended before this returns. */
  leads(leadership: Leadership): boolean
  remainingMs(leadership: Leadership): number
  drainMs(leadership: Leadership): number
  /** How long this process was stalled, if that is why its lease expired. Otherwise 0. */
  stalledMs(): number
  checkpoint(leadership: Leadership): string
  /** Whether a checkpoint that is set now can still reach the store. */
  mayWriteCheckpoint(leadership: Leadership): boolean
  setCheckpoint(leadership: Leadership, text: string): Promise<void>
  track(leadership: Leadership, work: Promise<unknown>): void
  progress(leadership: Leadership): void
  /** Throws if the options are invalid. Does nothing if this term no longer leads. */
  stepDown(leadership: Leadership, options: StepDownOptions): void
}

/**
 * One term of leadership. It has ended once its signal has aborted.
 *
 * @example
 * const leadership = await elector.waitForLeadership()
 * leadership.waitUntil(work({ signal: leadership.signal, fence: leadership.term }))
 */
export class Leadership {
  /** The fencing token. Pass it to every resource that this leader writes to. */
  readonly term: number
  readonly #host: LeadershipHost
  #controller: AbortController | undefined
  #loss: LeadershipLostError | undefined

  /** @internal */
  constructor(host: LeadershipHost, term: number) {
    this.#host = host
    this.term = term
  }

  get election(): string {
    return this.#host.election
  }

  get identity(): string {
    return this.#host.identity
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
   * Whether this term leads now, according to the clock. If its lease has expired, its signal has been aborted before
   * this returns.
   */
  isLeader(): boolean {
    // The elector may already lead in a new term while this leadership is still its current one, so check the loss as
    // well.
    return this.#loss === undefined && this.#host.leads(this)
  }

  /** Throws a {@link LeadershipLostError} unless this term leads now. */
  throwIfLost(): void {
    if (!this.isLeader()) throw this.#lossNow()
  }

  /**
   * Registers work that must settle before the lease is released. Its rejection is reported as an event, not thrown.
   */
  waitUntil(work: Promise<unknown>): void {
    this.#host.track(this, work)
  }

  /**
   * Reports that the work makes progress. With the option `progressTimeoutMs`, a leader that does not call this for
   * that long steps down. It costs almost nothing, so call it in every round of work.
   */
  progress(): void {
    this.#host.progress(this)
  }

  /**
   * Gives up this term: its signal aborts at once, and the lease is released after the work has settled. With `to`, the
   * release names the candidate that should lead next. Nothing happens if this term no longer leads. There is nothing to
   * await, because the release waits for the work that calls this.
   *
   * @example
   * await lead(options, async (leadership) => {
   *   process.once('SIGUSR2', () => leadership.stepDown({ to: 'node-3' }))
   *   await work({ signal: leadership.signal, fence: leadership.term })
   * })
   */
  stepDown(options: StepDownOptions = {}): void {
    this.#host.stepDown(this, options)
  }

  /** The checkpoint: a short string that outlives this leadership. The next leader reads it here. */
  get checkpoint(): string {
    return this.#host.checkpoint(this)
  }

  /**
   * Replaces the checkpoint and resolves once the store has saved it. After a rejection, it may or may not have been
   * saved. It can be set while leading, and by work that is winding down after `stop()` or `stepDown()`.
   */
  async setCheckpoint(text: string): Promise<void> {
    const { checkpointLimitBytes } = this.#host
    if (typeof text !== 'string' || Buffer.byteLength(text) > checkpointLimitBytes || !text.isWellFormed()) {
      throw invalidOption('checkpoint', text, `it must be well-formed text of at most ${checkpointLimitBytes} bytes`)
    }
    this.throwUnlessWritable()
    await this.#host.setCheckpoint(this, text)
  }

  /** @internal */
  throwUnlessWritable(): void {
    if (!this.#host.mayWriteCheckpoint(this)) throw this.#lossNow()
  }

  /** The time until `isLeader()` turns false without a renewal. 0 once it has turned false. */
  remainingMs(): number {
    return this.isLeader() ? this.#host.remainingMs(this) : 0
  }

  /** The time until another process may lead. After the signal has aborted, this is the time left to wind down. */
  drainMs(): number {
    return this.#host.drainMs(this)
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
    const stalledMs = isExpired ? this.#host.stalledMs() : 0
    // The store can be the cause only if the lease was not renewed.
    const cause = isExpired ? this.#host.storeError : undefined
    return new LeadershipLostError(this.election, this.term, reason, cause, this.#host.namespace, stalledMs)
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
export function isAbortOfTerm(cause: unknown, { election, term }: Leadership): boolean {
  try {
    const reason = cause instanceof Error && cause.name === 'AbortError' ? cause.cause : cause
    return reason instanceof LeadershipLostError && reason.election === election && reason.term === term
  } catch {
    // Work may throw anything, even a value whose properties throw when read.
    return false
  }
}
