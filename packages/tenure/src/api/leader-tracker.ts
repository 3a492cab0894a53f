import type { Clock, Timer } from '../common/clock.ts'
import type { LeaseRecord } from '../engine/lease-store.ts'

/** The lease as last observed, and the time until it expires if it is not renewed. */
export interface TrackedLease {
  readonly record: LeaseRecord
  readonly leftMs: number
}

/** The holder of a lease. Empty if the lease has expired or was released. */
export function holderOf(lease: TrackedLease | undefined): string {
  return lease && !lease.record.released && lease.leftMs > 0 ? lease.record.holder : ''
}

/**
 * Reports the leader whenever it changes, or '' if there is none: when the observed lease expires, or `graceMs` after
 * it was released. The next leader usually follows immediately, so a handover does not count as a time without a
 * leader.
 */
export class LeaderTracker {
  readonly #clock: Clock
  readonly #graceMs: number
  readonly #lease: () => TrackedLease | undefined
  readonly #onChange: (identity: string) => void
  #reported = ''
  #untilMs = -Infinity
  #timer: { readonly atMs: number; cancel(): void } | undefined
  #ended = false

  constructor(options: {
    readonly clock: Clock
    readonly graceMs: number
    lease(): TrackedLease | undefined
    onChange(identity: string): void
  }) {
    this.#clock = options.clock
    this.#graceMs = options.graceMs
    this.#lease = () => options.lease()
    this.#onChange = (identity) => options.onChange(identity)
  }

  /** Checks for a change of leader. Call this whenever the observed lease may have changed. */
  look(): void {
    if (this.#ended) return
    const nowMs = this.#clock.monotonicMs()
    const lease = this.#lease()
    // If nothing is known, as after a loss, the last observation still counts.
    if (lease?.record.released) this.#untilMs = Math.min(this.#untilMs, nowMs + this.#graceMs)
    else if (lease) this.#untilMs = nowMs + lease.leftMs
    const holder = holderOf(lease)
    const next = holder === '' && nowMs < this.#untilMs ? this.#reported : holder
    const isNews = next !== this.#reported
    this.#reported = next
    this.#arm(nowMs)
    if (isNews) this.#onChange(next)
  }

  /** Stops all reports. */
  end(): void {
    this.#ended = true
    this.#timer?.cancel()
  }

  #arm(nowMs: number): void {
    if (this.#reported === '') return
    // Keep a timer that fires earlier. Each renewal postpones the expiry, and checking too early is harmless.
    if (this.#timer && this.#timer.atMs <= this.#untilMs) return
    this.#timer?.cancel()
    const timer: Timer = this.#clock.setTimer(this.#untilMs - nowMs, () => {
      this.#timer = undefined
      this.look()
    })
    this.#timer = { atMs: this.#untilMs, cancel: () => timer.cancel() }
  }
}
