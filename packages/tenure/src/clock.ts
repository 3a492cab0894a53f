import { uptime } from 'node:os'

/** What {@link Clock.setTimer} gives back. */
export interface Timer {
  cancel(): void
}

/**
 * All time and chance that the library uses. Pass another one to test without waiting: `fakeClock()` from
 * `tenure/testing`.
 *
 * @example
 * const clock = fakeClock()
 * const store = memoryStore({ clock })
 * await clock.advance(15_000)
 */
export interface Clock {
  /** Never steps back; may stand still while the machine sleeps. Its zero means nothing. */
  monotonicMs(): number
  /** Like `monotonicMs`, with the same zero in every process of this machine until it restarts. */
  machineMs(): number
  /** Time since the machine started, sleep included. May be coarse. */
  bootMs(): number
  /** Unix time. It may jump; it is shown to people and used to notice sleep, nothing else. */
  wallMs(): number
  /** Calls back once after at least `delayMs`. A background timer does not keep the process alive. */
  setTimer(delayMs: number, callback: () => void, options?: { background?: boolean }): Timer
  /** At least 0, below 1. */
  random(): number
  /** A name that nobody else ever draws. */
  randomId(): string
}

const longestTimerMs = 2 ** 31 - 1

class SystemTimer implements Timer {
  readonly #timeout: NodeJS.Timeout

  constructor(delayMs: number, callback: () => void, background: boolean) {
    // A longer delay would fire at once. Waking early is harmless: whoever set the timer looks at the clock again.
    this.#timeout = setTimeout(callback, Math.min(Math.max(0, Math.ceil(delayMs)), longestTimerMs))
    if (background) this.#timeout.unref()
  }

  cancel(): void {
    clearTimeout(this.#timeout)
  }
}

const idBytes = 12
const pool = Buffer.alloc(idBytes * 128)
let poolUsed = pool.length

/** Drawn from a pool, because a single draw costs as much as a hundred. */
function randomId(): string {
  if (poolUsed === pool.length) {
    crypto.getRandomValues(pool)
    poolUsed = 0
  }
  poolUsed += idBytes
  return pool.toString('base64url', poolUsed - idBytes, poolUsed)
}

/** The real clock: the only place in the library where time and chance come from outside. */
export const systemClock: Clock = {
  monotonicMs: () => performance.now(),
  machineMs: () => {
    const [seconds, nanoseconds] = process.hrtime()
    return seconds * 1e3 + nanoseconds / 1e6
  },
  bootMs: () => uptime() * 1e3,
  wallMs: () => Date.now(),
  setTimer: (delayMs, callback, options) => new SystemTimer(delayMs, callback, options?.background ?? false),
  random: () => Math.random(),
  randomId,
}
