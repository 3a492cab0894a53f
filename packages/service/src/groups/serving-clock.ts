import type { Clock, Timer } from 'tenure'
import type { LeaseTime } from './in-memory-group.ts'

const tickMs = 100
/** A longer time without a tick is a stall: of the machine, the disk, or this process. */
const stallMs = 500

/**
 * A clock that measures how long this process was stalled. Renewals that arrive during a stall wait in their sockets.
 * If the stall counted in full, their leases would expire before the service could process them.
 *
 * So a stall is forgiven, for each lease up to a quarter of its duration since it was last extended. This is:
 *
 * - safe, because it only makes a lease last longer. A holder counts from when it sent its last confirmed renewal, and
 *   so never believes in its lease beyond what was promised;
 * - bounded, because otherwise anyone who can stall the service could keep a lease from expiring. A higher limit would
 *   help nobody. A holder that renews in time has most of its lease left when a stall begins, and a holder that gets no
 *   answer for that long steps down by itself.
 */
export class ServingClock implements Clock, LeaseTime {
  /** Leases that were granted since the start are measured by the monotonic clock itself. */
  readonly startMs = 0
  readonly #clock: Clock
  #lastTickMs: number
  #stalledMs = 0
  #tick: Timer

  constructor(clock: Clock) {
    this.#clock = clock
    this.#lastTickMs = clock.monotonicMs()
    this.#tick = this.#tickLater()
  }

  /**
   * The total time stalled, including a stall in progress. A stall is measured between ticks, not between reads of the
   * clock, because a long turn of the event loop keeps reading the clock for the callers that it is serving, while all
   * others wait.
   */
  get stalledMs(): number {
    return this.#stalledMs + this.#stallBefore(this.#clock.monotonicMs())
  }

  #stallBefore(nowMs: number): number {
    const gapMs = nowMs - this.#lastTickMs
    return gapMs > stallMs ? gapMs - tickMs : 0
  }

  monotonicMs(): number {
    return this.#clock.monotonicMs()
  }

  machineMs(): number {
    return this.#clock.machineMs()
  }

  bootMs(): number {
    return this.#clock.bootMs()
  }

  wallMs(): number {
    return this.#clock.wallMs()
  }

  setTimer(delayMs: number, callback: () => void, options?: Parameters<Clock['setTimer']>[2]): Timer {
    return this.#clock.setTimer(delayMs, callback, options)
  }

  random(): number {
    return this.#clock.random()
  }

  randomId(): string {
    return this.#clock.randomId()
  }

  stop(): void {
    this.#tick.cancel()
  }

  #tickLater(): Timer {
    const tick = () => {
      const nowMs = this.#clock.monotonicMs()
      this.#stalledMs += this.#stallBefore(nowMs)
      this.#lastTickMs = nowMs
      this.#tick = this.#tickLater()
    }
    return this.#clock.setTimer(tickMs, tick, { background: true })
  }
}
