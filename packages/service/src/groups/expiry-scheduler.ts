import type { Clock, Timer } from 'tenure'
import type { ExpiryQueue } from './expiry-queue.ts'
import type { GroupLease } from './in-memory-group.ts'

const retryMs = 1_000
/** How many ended leases are written at a time. A million leases may expire at once, and each write takes memory. */
const maxAtOnce = 2_000

/**
 * Schedules the expiry of leases. It changes no lease itself. `end` does that, and resolves once the end is durable or
 * if the lease was renewed.
 */
export class ExpiryScheduler {
  readonly #clock: Clock
  readonly #end: (lease: GroupLease) => Promise<void>
  readonly #queue: ExpiryQueue<GroupLease>
  #timer: { readonly atMs: number; readonly timer: Timer } | undefined
  #inFlight = 0
  /** Leases whose end could not be written. They are retried later. */
  #failed: GroupLease[] = []
  #retry: Timer | undefined
  #runs = false

  /** `queue` contains the leases that were loaded. */
  constructor(clock: Clock, queue: ExpiryQueue<GroupLease>, end: (lease: GroupLease) => Promise<void>) {
    this.#clock = clock
    this.#queue = queue
    this.#end = end
  }

  /** Ends the lease when it expires. */
  watch(lease: GroupLease): void {
    this.#queue.add(lease)
    this.#arm()
  }

  /** Records that a lease ended before it expired. */
  endedEarly(): void {
    this.#queue.endedEarly()
  }

  start(): void {
    this.#runs = true
    this.#arm()
  }

  stop(): void {
    this.#runs = false
    this.#timer?.timer.cancel()
    this.#retry?.cancel()
  }

  /** All leases share one timer. */
  #arm(): void {
    const nextMs = this.#queue.nextMs()
    if (nextMs === undefined || !this.#runs || this.#inFlight >= maxAtOnce) return
    if (this.#timer && this.#timer.atMs <= nextMs) return
    this.#timer?.timer.cancel()
    const timer = this.#clock.setTimer(nextMs - this.#clock.monotonicMs(), () => this.#expire())
    this.#timer = { atMs: nextMs, timer }
  }

  #expire(): void {
    this.#timer = undefined
    const nowMs = this.#clock.monotonicMs()
    while (this.#inFlight < maxAtOnce) {
      const lease = this.#queue.take(nowMs)
      if (!lease) break
      this.#inFlight += 1
      void this.#tryEnd(lease)
    }
    this.#arm()
  }

  async #tryEnd(lease: GroupLease): Promise<void> {
    try {
      await this.#end(lease)
      // The lease was renewed while its end was waiting to be written.
      if (!lease.ended) this.#queue.add(lease)
    } catch {
      this.#failed.push(lease)
      if (this.#runs) this.#retry ??= this.#clock.setTimer(retryMs, () => this.#tryAgain())
    }
    this.#inFlight -= 1
    this.#arm()
  }

  #tryAgain(): void {
    this.#retry = undefined
    for (const lease of this.#failed.splice(0)) if (!lease.ended) this.#queue.add(lease)
    this.#arm()
  }
}
