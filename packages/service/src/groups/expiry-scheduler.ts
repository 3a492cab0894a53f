import type { Clock, Timer } from 'tenure'
import { ExpiryQueue } from './expiry-queue.ts'
import type { GroupLease } from './group.ts'

const retryMs = 1_000
/** A million leases may expire at once, and each end is a write that takes memory until it is done. */
const mostAtOnce = 2_000

/**
 * Schedules the expiry of leases. It changes no lease itself: `end` does that, and resolves once the end is durable or
 * the lease was renewed.
 */
export class ExpiryScheduler {
  readonly #clock: Clock
  readonly #end: (lease: GroupLease) => Promise<void>
  readonly #queue = new ExpiryQueue<GroupLease>()
  #timer: { readonly atMs: number; readonly timer: Timer } | undefined
  #underWay = 0
  /** Leases whose end could not be written, until the next try. */
  #failed: GroupLease[] = []
  #retry: Timer | undefined
  #runs = false

  constructor(clock: Clock, end: (lease: GroupLease) => Promise<void>) {
    this.#clock = clock
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

  /** Starts the scheduler. The expiry of leases added so far was counted from 0, and counts from this moment. */
  start(nowMs: number): void {
    this.#queue.delay(nowMs)
    this.#runs = true
    this.#arm()
  }

  stop(): void {
    this.#runs = false
    this.#timer?.timer.cancel()
    this.#retry?.cancel()
  }

  /** One timer for all leases. */
  #arm(): void {
    const nextMs = this.#queue.nextMs()
    if (nextMs === undefined || !this.#runs || this.#underWay >= mostAtOnce) return
    if (this.#timer && this.#timer.atMs <= nextMs) return
    this.#timer?.timer.cancel()
    const timer = this.#clock.setTimer(nextMs - this.#clock.monotonicMs(), () => this.#expire())
    this.#timer = { atMs: nextMs, timer }
  }

  #expire(): void {
    this.#timer = undefined
    const nowMs = this.#clock.monotonicMs()
    while (this.#underWay < mostAtOnce) {
      const lease = this.#queue.take(nowMs)
      if (!lease) break
      this.#underWay += 1
      void this.#tryEnd(lease)
    }
    this.#arm()
  }

  async #tryEnd(lease: GroupLease): Promise<void> {
    try {
      await this.#end(lease)
      // The lease was renewed while its end waited for a write.
      if (!lease.ended) this.#queue.add(lease)
    } catch {
      this.#failed.push(lease)
      if (this.#runs) this.#retry ??= this.#clock.setTimer(retryMs, () => this.#tryAgain())
    }
    this.#underWay -= 1
    this.#arm()
  }

  #tryAgain(): void {
    this.#retry = undefined
    for (const lease of this.#failed.splice(0)) if (!lease.ended) this.#queue.add(lease)
    this.#arm()
  }
}
