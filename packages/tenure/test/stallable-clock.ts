import type { Clock } from '../src/clock.ts'

/** One process's view of the time: while it is stalled time goes on, but none of its timers runs. */
export interface StallableClock extends Clock {
  stall(): void
  /** Runs every timer that came due meanwhile, as an event loop does once it gets the processor back. */
  resume(): void
}

export function stallable(clock: Clock): StallableClock {
  let late: Set<() => void> | undefined
  return {
    ...clock,
    setTimer(delayMs, callback, options) {
      const timer = clock.setTimer(delayMs, () => (late ? void late.add(callback) : callback()), options)
      return {
        cancel() {
          timer.cancel()
          late?.delete(callback)
        },
      }
    },
    stall() {
      late = new Set()
    },
    resume() {
      const due = late ?? []
      late = undefined
      for (const callback of due) callback()
    },
  }
}
