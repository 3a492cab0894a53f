import { systemClock as realClock } from '@tenure/internal/clock'

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
  setTimer(delayMs: number, callback: () => void, options?: { background?: boolean | undefined }): Timer
  /** At least 0, below 1. */
  random(): number
  /** A name that nobody else ever draws, not even a clone of this process. */
  randomId(): string
}

/** The real clock. */
export const systemClock: Clock = realClock
