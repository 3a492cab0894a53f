import type { Clock, Timer } from 'tenure'
import { ServiceError } from '../common/errors.ts'
import { OwnershipLostError } from './directory-lock.ts'

/** How much longer than its duration each lease lasts after a restart. */
export const moveGraceMs = 5_000
/**
 * For how long after the last proof this process still confirms leases. It is 2% less than the grace, because the clock
 * rates of two machines may differ by that much, and because a sleep of up to {@link unseenSleepMs} goes unnoticed.
 */
const provenForMs = 4_900
const everyMs = 1_000
/** A proof in flight for longer than this is not worth waiting for. */
const soonMs = 1_000
const unseenSleepMs = 50

/** The options of {@link Ownership}. */
export interface OwnershipOptions {
  /** A clock that includes the time during which this process or machine was stalled. */
  readonly clock: Clock
  /** Returns how long this process has been running, not counting stalls. */
  servedMs(): number
  /** A moment at which the directory certainly still belonged to this process. */
  readonly provenAt: OwnershipMoment
  /** Resolves if this process still owns the directory and can write to it. */
  prove(): Promise<void>
  /** Called with the failure when proofs begin to fail, and with undefined when they succeed again. */
  readonly onChange?: ((failure: Error | undefined) => void) | undefined
}

/** One moment, on three clocks. */
export interface OwnershipMoment {
  readonly monotonicMs: number
  readonly bootMs: number
  readonly wallMs: number
}

/** Returns the current moment on three clocks. */
export function momentOf(clock: Clock): OwnershipMoment {
  return { monotonicMs: clock.monotonicMs(), bootMs: clock.bootMs(), wallMs: clock.wallMs() }
}

/**
 * Whether this process still owns its data directory. Renewals are confirmed from memory. Without this class, a service
 * whose volume was moved to another host, or whose directory was deleted, replaced, or given to another process, would
 * keep confirming renewals alongside its successor.
 *
 * Once a second, a proof shows that this process still owns the directory and can write to it. No request waits for it.
 * Nothing is confirmed once {@link provenForMs} have passed since the last successful proof was *sent*. This is why no
 * two services confirm the same group at once, with A as the first and B as its successor on the same data:
 *
 * 1. A proof that A sent at t0 and that succeeded shows that at some moment after t0 the directory was A's. So B took
 *    it later than t0, whenever the answer came.
 * 2. A decides each grant and each renewal less than 5 s after such a t0, on a clock that counts stalls and sleep. So A
 *    decides less than 5 s after B took the directory. A confirmed holder counts from its own sending, which was
 *    earlier still, and at most for the longest duration that is recorded on disk for its term: a longer one is written
 *    first, and A cannot write to a directory that B has.
 * 3. B counts every lease from a moment after it took the directory, for that longest duration and 5 s more ({@link
 *    moveGraceMs}). So B's next grant comes after the last lease that A confirmed.
 *
 * The same applies to A's writes: {@link assert} comes before each decision, and after each commit A checks that the
 * files are still where the next service finds them. So A does not grant, on another disk, a group that is free on B's
 * disk. Reads and refusals are also checked. Two processes on one machine need none of this as long as they find the
 * same files, because the kernel gives the lock to one of them.
 */
export class Ownership {
  readonly #options: OwnershipOptions
  #provenAt: OwnershipMoment
  #failure: Error | undefined
  #inFlight: { readonly servedMs: number; readonly proof: Promise<void> } | undefined
  #timer: Timer | undefined
  #isStopped = false

  constructor(options: OwnershipOptions) {
    this.#options = options
    this.#provenAt = options.provenAt
  }

  start(): void {
    this.#timer = this.#options.clock.setTimer(
      everyMs,
      () => {
        this.start()
        this.verify().catch(() => {})
      },
      { background: true },
    )
  }

  /** Resolves once no proof is in flight. No proof is sent from now on, because its files may be closed. */
  async stop(): Promise<void> {
    this.#isStopped = true
    this.#timer?.cancel()
    await this.#inFlight?.proof.catch(() => {})
  }

  /** Returns false once the directory is certainly lost, however recent the last proof is. */
  isProven(): boolean {
    return !(this.#failure instanceof OwnershipLostError) && this.#ageMs() < provenForMs
  }

  /** Always returns false, because the next proof may succeed. */
  isLost(): boolean {
    return false
  }

  /** Throws unless the last proof is recent enough. */
  assert(): void {
    if (!this.isProven()) throw this.#unproven()
  }

  /**
   * Resolves once a proof succeeds, or rejects. After a stall, every answer depends on the next proof, which takes only
   * a short time. If the last proof failed, or has been in flight for too long, this rejects at once. Proofs continue
   * once a second.
   */
  async waitUntilProven(): Promise<void> {
    const waitedMs = this.#inFlight ? this.#options.servedMs() - this.#inFlight.servedMs : 0
    if (this.#failure || waitedMs > soonMs) throw this.#unproven()
    await this.verify()
    // That proof may have been sent before the stall.
    if (!this.isProven()) await this.verify()
    this.assert()
  }

  /** Sends a proof, unless one is in flight. Rejects if it fails. */
  verify(): Promise<void> {
    if (this.#inFlight) return this.#inFlight.proof
    if (this.#isStopped) return Promise.reject(this.#unproven())
    const proof = this.#send(momentOf(this.#options.clock)).finally(() => (this.#inFlight = undefined))
    this.#inFlight = { servedMs: this.#options.servedMs(), proof }
    return proof
  }

  async #send(sentAt: OwnershipMoment): Promise<void> {
    try {
      await this.#options.prove()
    } catch (cause) {
      const before = this.#failure
      this.#failure = cause instanceof Error ? cause : new Error(String(cause))
      if (!before) this.#options.onChange?.(this.#failure)
      throw this.#unproven()
    }
    this.#provenAt = sentAt
    if (this.#failure) this.#options.onChange?.(undefined)
    this.#failure = undefined
  }

  #unproven(): ServiceError {
    const reason = this.#failure?.message ?? (this.#isStopped ? 'it is stopping' : 'its disk has not answered in time')
    const message = `This service cannot prove that it still owns its data directory: ${reason}.`
    return new ServiceError('BACKEND_UNAVAILABLE', message, { cause: this.#failure })
  }

  #ageMs(): number {
    const { clock } = this.#options
    const since = this.#provenAt
    const runMs = clock.monotonicMs() - since.monotonicMs
    const apartMs = clock.wallMs() - since.wallMs - runMs
    // The monotonic clock stops while the machine sleeps. Boot time does not, but it is slow to read.
    if (Math.abs(apartMs) <= unseenSleepMs) return runMs
    return Math.max(runMs, clock.bootMs() - since.bootMs)
  }
}
