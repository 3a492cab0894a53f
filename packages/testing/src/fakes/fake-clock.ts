import type { Clock, Timer } from 'tenure'

/** A clock that moves only when a test advances it. */
export interface FakeClock extends Clock {
  /** Advances the clock. Timers fire in order, and everything that one timer triggers runs before the next timer. */
  advance(ms: number): Promise<void>
  /** Moves only the wall clock, as setting the system time does. */
  setWall(wallMs: number): void
  /** Simulates a sleeping machine: wall and boot time advance, but the monotonic clock and all timers do not. */
  sleep(ms: number): void
  /** The number of pending timers, including background timers. */
  readonly timers: number
}

interface FakeTimer extends Timer {
  readonly dueMs: number
  readonly order: number
  readonly callback: () => void
}

/**
 * A deterministic clock and random source for tests. It starts at 0 (wall time 2030-01-01) and always generates the
 * same numbers.
 *
 * @example
 * const clock = fakeClock()
 * const elector = new Elector({ store: memoryStore({ clock }), election: 'jobs', clock })
 * elector.start()
 * await clock.advance(5_000)
 */
export function fakeClock(): FakeClock {
  const timers = new Set<FakeTimer>()
  let nowMs = 0
  let sleptMs = 0
  let wallAheadMs = Date.UTC(2030, 0, 1)
  let drawn = 0

  const nextTimer = (untilMs: number): FakeTimer | undefined => {
    let next: FakeTimer | undefined
    for (const timer of timers) {
      if (timer.dueMs > untilMs) continue
      if (!next || timer.dueMs < next.dueMs || (timer.dueMs === next.dueMs && timer.order < next.order)) next = timer
    }
    return next
  }

  return {
    monotonicMs: () => nowMs,
    machineMs: () => nowMs,
    bootMs: () => nowMs + sleptMs,
    wallMs: () => nowMs + wallAheadMs,
    setTimer(delayMs, callback) {
      const timer: FakeTimer = {
        dueMs: nowMs + Math.max(0, delayMs),
        order: ++drawn,
        callback,
        cancel: () => void timers.delete(timer),
      }
      timers.add(timer)
      return timer
    },
    // The golden ratio spreads the numbers evenly over the interval.
    random: () => (++drawn * 0.618_033_988_749_895) % 1,
    // The counter comes first because an elector's default identity contains only the first eight characters.
    randomId: () => `${String(++drawn).padStart(8, '0')}fake`,
    async advance(ms) {
      const untilMs = nowMs + ms
      await settle()
      for (let timer = nextTimer(untilMs); timer; timer = nextTimer(untilMs)) {
        timers.delete(timer)
        nowMs = Math.max(nowMs, timer.dueMs)
        timer.callback()
        await settle()
      }
      nowMs = untilMs
      await settle()
    },
    setWall(wallMs) {
      wallAheadMs = wallMs - nowMs
    },
    sleep(ms) {
      sleptMs += ms
      wallAheadMs += ms
    },
    get timers() {
      return timers.size
    },
  }
}

/** Lets every promise settle that does not depend on a timer. */
function settle(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}
