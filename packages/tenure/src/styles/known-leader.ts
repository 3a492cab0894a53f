import type { Clock, Timer } from '../clock.ts'
import type { LeaseRecord } from '../lease-store.ts'

/** The lease as it is known, and how much longer it lasts unless renewed. */
export interface SeenLease {
  readonly record: LeaseRecord
  readonly leftMs: number
}

/** The holder of a lease; empty if it has run out or was given back. */
export function holderOf(lease: SeenLease | undefined): string {
  return lease && !lease.record.released && lease.leftMs > 0 ? lease.record.holder : ''
}

/**
 * Reports the leader whenever it changes, and '' when there is none: at the moment the lease seen runs out, or `graceMs`
 * after it was given back. The next leader mostly follows at once, and a hand-over does not count as a time without one.
 */
export class KnownLeader {
  readonly #clock: Clock
  readonly #graceMs: number
  readonly #lease: () => SeenLease | undefined
  readonly #onChange: (identity: string) => void
  #reported = ''
  #untilMs = -Infinity
  #timer: { readonly atMs: number; cancel(): void } | undefined
  #ended = false

  constructor(options: {
    readonly clock: Clock
    readonly graceMs: number
    lease(): SeenLease | undefined
    onChange(identity: string): void
  }) {
    this.#clock = options.clock
    this.#graceMs = options.graceMs
    this.#lease = () => options.lease()
    this.#onChange = (identity) => options.onChange(identity)
  }

  /** To be called whenever something may have been seen. */
  look(): void {
    if (this.#ended) return
    const nowMs = this.#clock.monotonicMs()
    const lease = this.#lease()
    // If nothing is known, as after a loss, what was seen last still counts.
    if (lease?.record.released) this.#untilMs = Math.min(this.#untilMs, nowMs + this.#graceMs)
    else if (lease) this.#untilMs = nowMs + lease.leftMs
    const holder = holderOf(lease)
    const next = holder === '' && nowMs < this.#untilMs ? this.#reported : holder
    const isNews = next !== this.#reported
    this.#reported = next
    this.#arm(nowMs)
    if (isNews) this.#onChange(next)
  }

  /** Reports nothing more. */
  end(): void {
    this.#ended = true
    this.#timer?.cancel()
  }

  #arm(nowMs: number): void {
    if (this.#reported === '') return
    // One that is early enough stays: each renewal puts the end off, and looking too early does no harm.
    if (this.#timer && this.#timer.atMs <= this.#untilMs) return
    this.#timer?.cancel()
    const timer: Timer = this.#clock.setTimer(this.#untilMs - nowMs, () => {
      this.#timer = undefined
      this.look()
    })
    this.#timer = { atMs: this.#untilMs, cancel: () => timer.cancel() }
  }
}
