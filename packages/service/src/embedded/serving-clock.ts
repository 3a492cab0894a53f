import type { Clock, Timer } from 'tenure'

const tickMs = 100
/** A longer time in which nothing ran was a stall: of the machine, of the disk, of this process. */
const stallMs = 500

/**
 * A clock that does not count the time in which this process stood still. Renewals that came meanwhile wait in their
 * sockets; if the stall counted, their leases would be over before anybody could have looked at them. A lease may last
 * longer by it, never shorter.
 */
export class ServingClock implements Clock {
  readonly #clock: Clock
  #lastMs: number
  #stalledMs = 0
  #tick: Timer

  constructor(clock: Clock) {
    this.#clock = clock
    this.#lastMs = clock.monotonicMs()
    this.#tick = this.#tickLater()
  }

  monotonicMs(): number {
    const nowMs = this.#clock.monotonicMs()
    const gapMs = nowMs - this.#lastMs
    if (gapMs > stallMs) this.#stalledMs += gapMs - tickMs
    this.#lastMs = nowMs
    return nowMs - this.#stalledMs
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
      this.monotonicMs()
      this.#tick = this.#tickLater()
    }
    return this.#clock.setTimer(tickMs, tick, { background: true })
  }
}
