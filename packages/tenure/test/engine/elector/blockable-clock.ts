import { systemClock, type Clock, type Timer } from '../../../src/common/clock.ts'

/** A clock that lets work pretend to block the event loop. */
export interface BlockableClock extends Clock {
  block(ms: number): void
}

/** The real clock, plus the time that block() added. Timers that came due in a blocked period fire right after it. */
export function blockableClock(): BlockableClock {
  let blockedMs = 0
  const timers = new Set<{ set(): void }>()
  const monotonicMs = () => systemClock.monotonicMs() + blockedMs
  return {
    ...systemClock,
    monotonicMs,
    machineMs: () => systemClock.machineMs() + blockedMs,
    bootMs: () => systemClock.bootMs() + blockedMs,
    wallMs: () => systemClock.wallMs() + blockedMs,
    setTimer(delayMs, callback, options) {
      const dueMs = monotonicMs() + delayMs
      const fire = () => {
        timers.delete(entry)
        callback()
      }
      let timer: Timer | undefined
      const entry = {
        set() {
          timer?.cancel()
          timer = systemClock.setTimer(dueMs - monotonicMs(), fire, options)
        },
      }
      timers.add(entry)
      entry.set()
      return {
        cancel() {
          timers.delete(entry)
          timer?.cancel()
        },
      }
    },
    block(ms) {
      blockedMs += ms
      for (const timer of timers) timer.set()
    },
  }
}
