import { systemClock, type Clock } from '../../../tenure/src/common/clock.ts'

/** A clock that moves only when a test advances it. It has no timers because the stores tested here need none. */
export function manualClock(): Clock & { pass(ms: number): void } {
  let nowMs = 1_000
  return {
    ...systemClock,
    monotonicMs: () => nowMs,
    machineMs: () => nowMs,
    bootMs: () => nowMs,
    wallMs: () => 1_700_000_000_000 + nowMs,
    setTimer: () => {
      throw new Error('This clock has no timers.')
    },
    pass(ms) {
      nowMs += ms
    },
  }
}
