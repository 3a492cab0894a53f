import type { Clock, Timer } from '../src/clock.ts'

/** One process's view of the time: while it is stalled time goes on, but none of its timers runs. */
export interface StallableClock extends Clock {
  stall(): void
  /**
   * Lets every timer that came due meanwhile run, as an event loop does once it gets the processor back: in their order,
   * and what one of them sets in motion runs before the next. They run when the clock is advanced, if only by 0.
   */
  resume(): void
}

export function stallable(clock: Clock): StallableClock {
  /** Timers that came due meanwhile: how each is run. */
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
