import { AssertionError } from 'node:assert/strict'
import type { FakeClock } from '../../testing/src/index.ts'

/** A clock that fails the test instead of hanging when timers are set for the current moment in an endless loop. */
export function withoutSpin(clock: FakeClock): FakeClock {
  let [atMs, timers] = [-1, 0]
  const setTimer: FakeClock['setTimer'] = (delayMs, callback, options) => {
    const nowMs = clock.monotonicMs()
    timers = nowMs === atMs ? timers + 1 : 0
    atMs = nowMs
    if (timers > 1_000) throw new AssertionError({ message: `More than 1,000 timers were set at ${nowMs} ms.` })
    return clock.setTimer(delayMs, callback, options)
  }
  return { ...clock, setTimer }
}
