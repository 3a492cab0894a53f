import type { Clock, Timer } from '../src/common/clock.ts'

/** The clock of one process. While the process is stalled, time passes but none of its timers fires. */
export interface StallableClock extends Clock {
  stall(): void
  /**
   * Fires every timer that came due during the stall, as an event loop does when it gets the processor back. They fire
   * in order, and everything that one of them starts runs before the next one fires. They fire when the clock is
   * advanced, even by 0.
   */
  resume(): void
}

export function stallable(clock: Clock): StallableClock {
  /** The timers that came due during the stall, each as a function that fires it. Undefined while not stalled. */
  let late: Set<() => void> | undefined
  return {
    ...clock,
    setTimer(delayMs, callback, options) {
      const fire = () => {
        if (late) late.add(run)
        else callback()
      }
      const run = () => {
        timer = clock.setTimer(0, fire, options)
      }
      let timer: Timer = clock.setTimer(delayMs, fire, options)
      return {
        cancel() {
          timer.cancel()
          late?.delete(run)
        },
      }
    },
    stall() {
      late = new Set()
    },
    resume() {
      const due = late ?? []
      late = undefined
      for (const run of due) run()
    },
  }
}
