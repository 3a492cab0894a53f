import { systemClock as realClock } from '@tenure/internal/clock'

/** The handle that {@link Clock.setTimer} returns. */
export interface Timer {
  cancel(): void
}

/**
 * The only source of time and randomness in the library. To test without waiting, pass `fakeClock()` from
 * `@tenure/testing`.
 *
 * @example
 * const clock = fakeClock()
 * const store = memoryStore({ clock })
 * await clock.advance(15_000)
 */
export interface Clock {
  /** Monotonic time. It may pause while the machine sleeps. Its zero point is arbitrary. */
  monotonicMs(): number
  /** Monotonic time whose zero point is the same for every process on this machine, until the machine restarts. */
  machineMs(): number
  /** Time since the machine started, including sleep. The resolution may be coarse. */
  bootMs(): number
  /** Unix time. It may jump, so it is only displayed and used to detect sleep. */
  wallMs(): number
  /** Calls `callback` once, after at least `delayMs`. A background timer does not keep the process alive. */
  setTimer(delayMs: number, callback: () => void, options?: { background?: boolean | undefined }): Timer
  /** Returns a number of at least 0 and below 1. */
  random(): number
  /** Returns a name that is globally unique. Even a clone of this process never gets the same name. */
  randomId(): string
}

/** The real clock. */
export const systemClock: Clock = realClock
