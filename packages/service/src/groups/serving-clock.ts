import type { Clock, Timer } from 'tenure'

const tickMs = 100
/** A longer time without a tick is a stall: of the machine, of the disk, of this process. */
const stallMs = 500

/**
 * A clock that knows how long this process stood still. Renewals that came meanwhile wait in their sockets; if a stall
 * counted in full, their leases would be over before anybody could have looked at them.
 *
 * So a stall is forgiven, to each lease up to a quarter of its duration since it was last extended:
 *
 * - safe, because a lease only ever lasts longer by it. A holder counts from when it sent its last renewal that was
 *   confirmed, and so believes in no moment that comes after what was promised;
 * - bounded, because otherwise anyone who makes the service stall could keep a lease from ending. More would help nobody:
 *   a holder that renews in time has most of its lease left when a stall begins, and one that was not answered for the
 *   rest of it has given up by itself.
 */
export class ServingClock implements Clock {
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
   * In all, with the stall that goes on now. Measured between ticks and not between looks at the clock: a turn of the
   * event loop that takes long looks at it all the time, for the callers whom it serves, and all others wait.
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
