import type { Clock, Timer } from './clock.ts'

const disagreementMs = 50
const slowestTickMs = 1_000
/** Boot time is rounded to 10 ms, and read a moment after the monotonic clock: less than this may be no sleep at all. */
const shortestSleepMs = 20
/** How far apart the readings of one look may be. */
const apartMs = 5

/** Told when the machine turns out to have slept. */
export interface Sleeper {
  readonly leaseDurationMs: number
  onSleep(): void
}

/**
 * Measures how long this machine has slept. A monotonic clock stands still in a sleep, so a holder that counted on it
 * alone would wake up with time left that it no longer has.
 *
 * Boot time counts sleep but is slow to read, so it is looked at only when wall and monotonic time have moved apart,
 * and once per tick while someone leads. A wall clock that somebody set causes such a look and nothing else.
 */
export class SleepMeter {
  readonly #clock: Clock
  readonly #bootAheadMs: number
  readonly #leaders = new Set<Sleeper>()
  #wallAheadMs: number
  #sleptMs = 0
  #tick: Timer | undefined
  #tickMs = slowestTickMs
  #tickDueMs = Infinity
  #stall = { fromMs: Infinity, toMs: -Infinity }

  static readonly #meters = new WeakMap<Clock, SleepMeter>()

  /** One meter serves all electors on one clock. */
  static of(clock: Clock): SleepMeter {
    let meter = SleepMeter.#meters.get(clock)
    if (!meter) SleepMeter.#meters.set(clock, (meter = new SleepMeter(clock)))
    return meter
  }

  private constructor(clock: Clock) {
    this.#clock = clock
    const { nowMs, bootMs, wallMs } = readTogether(clock)
    this.#bootAheadMs = bootMs - nowMs
    this.#wallAheadMs = wallMs - nowMs
  }

  /** The sleep known by now. */
  sleptMs(nowMs: number): number {
    const movedMs = this.#clock.wallMs() - nowMs - this.#wallAheadMs
    if (movedMs <= disagreementMs && movedMs >= -disagreementMs) return this.#sleptMs
    this.#look()
    // A stall since `nowMs` was read has used up time too, but is not a sleep: it counts for this answer only.
    return this.#sleptMs + Math.max(0, this.#clock.monotonicMs() - nowMs)
  }

  /**
   * How long this process did not run, if that is why it missed a deadline; otherwise 0. Its event loop was blocked, or
   * it was paused. Known only while someone leads: a tick that comes late by more than its interval shows it.
   */
  stalledMs(deadlineMs: number): number {
    this.#noteStall()
    const { fromMs, toMs } = this.#stall
    return fromMs <= deadlineMs && deadlineMs <= toMs + this.#tickMs ? toMs - fromMs : 0
  }

  /** Starts the tick that notices a sleep for a leader whose code asks nothing. */
  watchFor(leader: Sleeper): void {
    const tickMs = Math.min(slowestTickMs, leader.leaseDurationMs / 10)
    this.#leaders.add(leader)
    if (this.#tick && tickMs >= this.#tickMs) return
    this.#tickMs = tickMs
    this.#startTick()
  }

  forget(leader: Sleeper): void {
    this.#leaders.delete(leader)
    if (this.#leaders.size > 0) return
    this.#noteStall()
    this.#tick?.cancel()
    this.#tick = undefined
    this.#tickMs = slowestTickMs
  }

  #noteStall(): void {
    const nowMs = this.#clock.monotonicMs()
    if (this.#tick && nowMs - this.#tickDueMs >= this.#tickMs) this.#stall = { fromMs: this.#tickDueMs, toMs: nowMs }
  }

  #startTick(): void {
    this.#noteStall()
    this.#tick?.cancel()
    this.#tickDueMs = this.#clock.monotonicMs() + this.#tickMs
    this.#tick = this.#clock.setTimer(
      this.#tickMs,
      () => {
        this.#startTick()
        this.#look()
      },
      { background: true },
    )
  }

  #look(): void {
    const { nowMs, bootMs, wallMs } = readTogether(this.#clock)
    const sleptMs = bootMs - nowMs - this.#bootAheadMs
    this.#wallAheadMs = wallMs - nowMs
    // Rounding that counted as a sleep would shorten a lease. A machine sleeps for longer, and short sleeps add up.
    if (sleptMs - this.#sleptMs < shortestSleepMs) return
    this.#sleptMs = sleptMs
    if (this.#leaders.size === 0) return
    // Not from here: a leader that asks is ended by its own question, and must not run the abort handlers of others.
    this.#clock.setTimer(0, () => {
      for (const leader of this.#leaders) leader.onSleep()
    })
  }
}

/** Reads three clocks at one moment. A stall in between would look like a sleep and hide a later one, so it is not kept. */
function readTogether(clock: Clock): { nowMs: number; bootMs: number; wallMs: number } {
  for (;;) {
    const nowMs = clock.monotonicMs()
    const bootMs = clock.bootMs()
    const wallMs = clock.wallMs()
    if (clock.monotonicMs() - nowMs <= apartMs) return { nowMs, bootMs, wallMs }
  }
}
