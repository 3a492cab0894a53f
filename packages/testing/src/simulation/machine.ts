import type { Clock, Timer } from 'tenure'
import type { Random } from './random.ts'
import type { Scheduled, World } from './world.ts'

interface MachineTimer extends Timer {
  readonly dueMs: number
  readonly callback: () => void
  scheduled: Scheduled | undefined
}

/** The resolution of the clock that counts sleep, as on Linux. */
export const bootResolutionMs = 10

/** A machine with one process: its own clock, and the ways in which it can stop. */
export class Machine {
  readonly clock: Clock
  /** How fast its clocks run: 1 is real time. */
  readonly rate: number
  state: 'running' | 'paused' | 'asleep' | 'dead' = 'running'
  /** The number of events from a pause that the process has not handled yet. */
  backlog = 0
  wokeAtMs = -Infinity
  resumedAtMs = -Infinity
  /** The highest number of timers that fired within one second. */
  busiest = 0
  readonly #world: World
  readonly #random: Random
  readonly #timers = new Set<MachineTimer>()
  readonly #waiting: (() => void)[] = []
  #anchorMs: number
  #atAnchorMs: number
  #sleptMs = 0
  #wallAheadMs: number
  #ids = 0
  #second = 0
  #fired = 0

  /** `like`: the machine whose snapshot is restored here, so that its clock continues. */
  constructor(world: World, random: Random, rate: number, like?: Machine) {
    this.#world = world
    this.#random = random
    this.rate = rate
    this.#anchorMs = world.nowMs
    this.#atAnchorMs = like ? like.clock.monotonicMs() : random.between(1e3, 1e7)
    this.#wallAheadMs = random.between(1.7e12, 1.9e12)
    const prefix = Math.floor(random.next() * 2 ** 32).toString(36)
    this.clock = {
      monotonicMs: () => this.#monotonicMs(),
      machineMs: () => this.#monotonicMs(),
      bootMs: () => Math.floor((this.#monotonicMs() + this.#sleptMs) / bootResolutionMs) * bootResolutionMs,
      wallMs: () => this.#monotonicMs() + this.#sleptMs + this.#wallAheadMs,
      setTimer: (delayMs, callback) => this.#setTimer(delayMs, callback),
      random: () => random.next(),
      randomId: () => `${prefix}${(++this.#ids).toString(36)}`,
    }
  }

  get hasSlept(): boolean {
    return this.#sleptMs > 0
  }

  get timers(): number {
    return this.#timers.size
  }

  /** Delivers a message from outside. A stopped machine receives it when it resumes. A dead one never does. */
  deliver(run: () => void): void {
    if (this.state === 'running' && this.backlog === 0) run()
    else if (this.state !== 'dead') this.#waiting.push(run)
  }

  jumpWall(ms: number): void {
    this.#wallAheadMs += ms
  }

  /** Pauses the process. Its clocks continue. */
  pause(): void {
    if (this.state === 'running') this.state = 'paused'
  }

  /** Suspends the whole machine, including its monotonic clock. */
  sleep(): void {
    if (this.state !== 'running') return
    this.#atAnchorMs = this.#monotonicMs()
    this.#anchorMs = this.#world.nowMs
    this.state = 'asleep'
    for (const timer of this.#timers) unschedule(timer)
  }

  resume(): void {
    if (this.state === 'asleep') {
      this.#sleptMs += (this.#world.nowMs - this.#anchorMs) * this.rate
      this.#anchorMs = this.#world.nowMs
      this.wokeAtMs = this.#world.nowMs
      this.state = 'running'
      for (const timer of this.#timers) this.#schedule(timer)
    }
    if (this.state !== 'running' && this.state !== 'paused') return
    this.state = 'running'
    this.resumedAtMs = this.#world.nowMs
    this.#workOff()
  }

  crash(): void {
    this.state = 'dead'
    for (const timer of this.#timers) unschedule(timer)
    this.#timers.clear()
    this.#waiting.length = 0
  }

  /** Timers and messages that came due during the stop run in any order, as in a real event loop. */
  #workOff(): void {
    const waiting = this.#random.shuffle(this.#waiting.splice(0))
    this.backlog += waiting.length
    for (const run of waiting) {
      this.#world.after(0, () => {
        this.backlog -= 1
        if (this.state === 'running') run()
        else if (this.state !== 'dead') this.#waiting.push(run)
        if (this.backlog === 0 && this.state === 'running' && this.#waiting.length > 0) this.#workOff()
      })
    }
  }

  #count(): void {
    const second = Math.floor(this.#world.nowMs / 1000)
    this.#fired = second === this.#second ? this.#fired + 1 : 1
    this.#second = second
    this.busiest = Math.max(this.busiest, this.#fired)
  }

  #monotonicMs(): number {
    if (this.state === 'asleep') return this.#atAnchorMs
    return this.#atAnchorMs + (this.#world.nowMs - this.#anchorMs) * this.rate
  }

  #setTimer(delayMs: number, callback: () => void): Timer {
    const timer: MachineTimer = {
      dueMs: this.#monotonicMs() + Math.max(0, delayMs),
      callback,
      scheduled: undefined,
      cancel: () => {
        this.#timers.delete(timer)
        unschedule(timer)
      },
    }
    if (this.state === 'dead') return timer
    this.#timers.add(timer)
    if (this.state !== 'asleep') this.#schedule(timer)
    return timer
  }

  #schedule(timer: MachineTimer): void {
    const lateMs = this.#random.next() * 2
    const inMs = (timer.dueMs - this.#monotonicMs()) / this.rate + lateMs
    timer.scheduled = this.#world.after(inMs, () => {
      const fire = () => {
        if (!this.#timers.delete(timer)) return
        this.#count()
        timer.callback()
      }
      this.deliver(fire)
    })
  }
}

function unschedule(timer: MachineTimer): void {
  if (timer.scheduled) timer.scheduled.run = undefined
}
