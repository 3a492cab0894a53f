import { AssertionError } from 'node:assert/strict'
import type { FakeClock } from '../src/testing/index.ts'

/** Fails instead of hanging: a timer that is set for the present again and again never lets time pass. */
export function withoutSpin(clock: FakeClock): FakeClock {
  let [atMs, timers] = [-1, 0]
  const setTimer: FakeClock['setTimer'] = (delayMs, callback, options) => {
    const nowMs = clock.monotonicMs()
    timers = nowMs === atMs ? timers + 1 : 0
    atMs = nowMs
    if (timers > 1_000) throw new AssertionError({ message: `Timers are set again and again at ${nowMs} ms.` })
    return clock.setTimer(delayMs, callback, options)
  }
  return { ...clock, setTimer }
}
