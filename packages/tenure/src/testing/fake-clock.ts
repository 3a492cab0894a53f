import type { Clock, Timer } from '../clock.ts'

/** A clock that moves only when a test advances it. */
export interface FakeClock extends Clock {
  /** Lets time pass: timers fire in order, and what they set in motion runs before the next. */
  advance(ms: number): Promise<void>
  /** Moves the wall clock alone, as somebody who sets the time does. */
  setWall(wallMs: number): void
  /** Lets the machine sleep: wall and boot time pass, the monotonic clock and all timers stand still. */
  sleep(ms: number): void
  /** How many timers are set; background ones too. */
  readonly timers: number
}

interface FakeTimer extends Timer {
  readonly dueMs: number
  readonly order: number
  readonly callback: () => void
}

/**
 * Time and chance for tests: starts at 0 (wall: 2030-01-01), draws the same chances every time.
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
    // The golden ratio spreads the draws evenly over the interval.
    random: () => (++drawn * 0.618_033_988_749_895) % 1,
    // The count comes first: an elector's default identity shows only the first eight characters.
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

/** Lets every promise that can settle without time passing do so. */
function settle(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}
