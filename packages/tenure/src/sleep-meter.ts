import type { Clock, Timer } from './clock.ts'

const disagreementMs = 50
const slowestTickMs = 1_000
const coarseMs = 20

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
  #toldMs = 0
  #tick: Timer | undefined
  #tickMs = slowestTickMs

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
    const apartMs = this.#clock.wallMs() - nowMs - this.#wallAheadMs
    if (apartMs <= disagreementMs && apartMs >= -disagreementMs) return this.#sleptMs
    this.#look()
    // A stall since `nowMs` was read has used up time too, but is not a sleep: it counts for this answer only.
    return this.#sleptMs + Math.max(0, this.#clock.monotonicMs() - nowMs)
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
    this.#tick?.cancel()
    this.#tick = undefined
    this.#tickMs = slowestTickMs
  }

  #startTick(): void {
    this.#tick?.cancel()
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
    if (sleptMs <= this.#sleptMs) return
    this.#sleptMs = sleptMs
    // Boot time is coarse: what may be mere rounding is counted, but not worth waking everybody.
    if (this.#leaders.size === 0 || sleptMs - this.#toldMs < coarseMs) return
    this.#toldMs = sleptMs
    // Not from here: a caller that asks whether it leads must not have its own abort handlers run inside the question.
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
    if (clock.monotonicMs() - nowMs <= coarseMs) return { nowMs, bootMs, wallMs }
  }
}
