import type { Clock, Timer } from '../common/clock.ts'

const disagreementMs = 50
const slowestTickMs = 1_000
/**
 * Boot time is rounded to 10 ms and read slightly after the monotonic clock, so a smaller difference may not be a
 * sleep.
 */
const shortestSleepMs = 20
/** The maximum time between the first and the last clock reading of one measurement. */
const apartMs = 5

/** Notified when the machine has slept. */
export interface SleepListener {
  readonly leaseDurationMs: number
  onSleep(): void
}

/**
 * Measures how long this machine has slept. A monotonic clock pauses during a sleep, so a holder that relied on it
 * alone would wake up and still count on time that has already passed.
 *
 * Boot time counts sleep but is slow to read. It is read only when wall and monotonic time have drifted apart, and once
 * per tick while an elector leads. Setting the wall clock causes one such reading and has no other effect.
 */
export class SleepMeter {
  readonly #clock: Clock
  readonly #bootAheadMs: number
  readonly #leaders = new Set<SleepListener>()
  #wallAheadMs: number
  #sleptMs = 0
  #tick: Timer | undefined
  #tickMs = slowestTickMs
  #tickDueMs = Infinity
  #stall = { fromMs: Infinity, toMs: -Infinity }

  static readonly #meters = new WeakMap<Clock, SleepMeter>()

  /** Returns the meter that all electors on one clock share. */
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

  /** The total sleep known so far. */
  sleptMs(nowMs: number): number {
    const movedMs = this.#clock.wallMs() - nowMs - this.#wallAheadMs
    if (movedMs <= disagreementMs && movedMs >= -disagreementMs) return this.#sleptMs
    this.#look()
    // A stall since `nowMs` was read has also used up time, but it is not a sleep. It counts for this result only.
    return this.#sleptMs + Math.max(0, this.#clock.monotonicMs() - nowMs)
  }

  /**
   * How long this process was stalled, if that is why it missed a deadline. Otherwise 0. A stall means that the event
   * loop was blocked or the process was paused. It is known only while an elector leads, because a tick that is late by
   * more than its interval reveals it.
   */
  stalledMs(deadlineMs: number): number {
    this.#noteStall()
    const { fromMs, toMs } = this.#stall
    return fromMs <= deadlineMs && deadlineMs <= toMs + this.#tickMs ? toMs - fromMs : 0
  }

  /** Starts the tick, which notices a sleep even if the leader's code never checks the clock. */
  watchFor(leader: SleepListener): void {
    const tickMs = Math.min(slowestTickMs, leader.leaseDurationMs / 10)
    this.#leaders.add(leader)
    if (this.#tick && tickMs >= this.#tickMs) return
    this.#tickMs = tickMs
    this.#startTick()
  }

  forget(leader: SleepListener): void {
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
    // Counting a rounding error as sleep would shorten a lease. Real sleeps are longer, and short ones add up.
    if (sleptMs - this.#sleptMs < shortestSleepMs) return
    this.#sleptMs = sleptMs
    if (this.#leaders.size === 0) return
    // Notify the leaders later, because this may run inside a leader's own check. That check ends its own leadership
    // and must not run the abort handlers of other leaders.
    this.#clock.setTimer(0, () => {
      for (const leader of this.#leaders) leader.onSleep()
    })
  }
}

/**
 * Reads three clocks at one moment. A stall between the readings would look like a sleep and hide a later sleep, so
 * such readings are discarded.
 */
function readTogether(clock: Clock): { nowMs: number; bootMs: number; wallMs: number } {
  for (;;) {
    const nowMs = clock.monotonicMs()
    const bootMs = clock.bootMs()
    const wallMs = clock.wallMs()
    if (clock.monotonicMs() - nowMs <= apartMs) return { nowMs, bootMs, wallMs }
  }
}
