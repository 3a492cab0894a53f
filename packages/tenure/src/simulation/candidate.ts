import { Elector, type ElectorOptions } from '../elector.ts'
import type { ElectionEvent } from '../events.ts'
import type { Leadership } from '../leadership.ts'
import { resolveTimings } from '../timings.ts'
import type { Checker } from './checker.ts'
import type { Link } from './link.ts'
import type { Machine } from './machine.ts'
import type { Random } from './random.ts'
import type { Timeline } from './timeline.ts'
import type { World } from './world.ts'

/** How the work of a simulated leader behaves. */
export interface WorkHabits {
  /** How long it goes on after its signal aborted. */
  readonly windDownMs: number
  /** How late its writes may arrive at the guarded resource. */
  readonly writeDelayMs: number
  readonly writeEveryMs: number
}

/** One process that takes part: an elector, its machine, its way to the store, and the work it does while it leads. */
export class Candidate {
  readonly name: string
  readonly machine: Machine
  readonly link: Link
  readonly elector: Elector
  /** The term of the newest leadership. */
  term = 0
  /** The term that was announced as won and not yet as lost. */
  openTerm: number | undefined
  lastTerm = 0
  stopping = false
  /** When its newest leadership was told to end. */
  abortedAtMs = 0
  /** Until a leader that cannot renew may give up, less what its last answer and its clock may have cost. */
  readonly leastPatienceMs: number
  readonly #world: World
  readonly #random: Random
  readonly #checker: Checker
  readonly #timeline: Timeline
  readonly #habits: WorkHabits
  readonly #attempts: Set<string> = new Set()
  #leadership: Leadership | undefined
  #workTerm: number | undefined
  #lastVerb = ''
  #renewedAtMs = -Infinity

  constructor(options: {
    name: string
    world: World
    random: Random
    machine: Machine
    link: Link
    checker: Checker
    timeline: Timeline
    habits: WorkHabits
    elector: Omit<ElectorOptions, 'clock' | 'observer' | 'identity'>
  }) {
    this.name = options.name
    this.machine = options.machine
    this.link = options.link
    this.#world = options.world
    this.#random = options.random
    this.#checker = options.checker
    this.#timeline = options.timeline
    this.#habits = options.habits
    const { store } = options.elector
    const { renewDeadlineMs, renewIntervalMs, driftRatio } = resolveTimings(options.elector)
    this.leastPatienceMs = renewDeadlineMs * (1 - 2 * driftRatio) - (renewDeadlineMs - renewIntervalMs) / 2
    this.elector = new Elector({
      ...options.elector,
      identity: options.name,
      clock: options.machine.clock,
      store: {
        ...store,
        read: (election, call) => {
          this.#lastVerb = 'read'
          return store.read(election, call)
        },
        acquire: (claim, call) => {
          this.#lastVerb = 'acquire'
          this.#attempts.add(claim.attempt)
          return store.acquire(claim, call)
        },
      },
      observer: {
        onEvent: (event) => this.#onEvent(event),
        onCall: ({ verb, result }) => {
          if (verb === 'acquire' && result === 'failed') this.#checker.counts.unknownOutcomes += 1
        },
      },
    })
  }

  start(): void {
    this.elector.start()
    void this.#lead()
    void this.#read()
  }

  /** I1: answers that it leads, or holds a signal that has not aborted while its event loop runs. */
  believes(): boolean {
    if (this.machine.state !== 'running') return false
    // After a sleep, a leader that asks nothing learns of it by a tick, within a tenth of its lease and a second.
    const groggy = this.#world.nowMs - this.machine.wokeAtMs < 1_100
    if (groggy) return false
    if (this.elector.isLeader()) return true
    const settled = this.machine.backlog === 0
    return settled && this.#leadership !== undefined && !this.#leadership.signal.aborted && this.#signalIsDue()
  }

  /** How long its last term went on after its last renewal; for ever if there was none. */
  get patientForMs(): number {
    return this.abortedAtMs - this.#renewedAtMs
  }

  owns(attempt: string): boolean {
    return this.machine.state !== 'dead' && this.#attempts.has(attempt)
  }

  get isWorking(): boolean {
    return this.#workTerm !== undefined
  }

  runsWorkOf(term: number): boolean {
    return this.machine.state !== 'dead' && this.#workTerm === term
  }

  /** A timer may be a few milliseconds late; then the answer is no already, and the signal follows. */
  #signalIsDue(): boolean {
    this.#lateSinceMs ??= this.#world.nowMs
    return this.#world.nowMs - this.#lateSinceMs > 5
  }

  #lateSinceMs: number | undefined

  async #lead(): Promise<void> {
    for (;;) {
      let leadership: Leadership
      try {
        leadership = await this.elector.waitForLeadership()
      } catch {
        return
      }
      this.term = leadership.term
      this.#leadership = leadership
      this.#lateSinceMs = undefined
      this.#workTerm = leadership.term
      leadership.signal.addEventListener('abort', () => (this.abortedAtMs = this.#world.nowMs), { once: true })
      const work = this.#work(leadership).finally(() => (this.#workTerm = undefined))
      try {
        leadership.waitUntil(work)
      } catch {
        // It was lost before this line ran.
      }
      await work
    }
  }

  /** Writes from time to time; when told to stop, winds down at its own pace, and its last write may hang about. */
  async #work({ signal, term }: Leadership): Promise<void> {
    const { windDownMs, writeDelayMs, writeEveryMs } = this.#habits
    while (!signal.aborted) {
      await this.#wait(this.#random.waiting(writeEveryMs), signal)
      this.#world.after(this.#random.next() ** 4 * writeDelayMs, () => this.#checker.write(term))
    }
    await this.#wait(this.#random.next() * windDownMs)
  }

  #wait(ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        timer.cancel()
        signal?.removeEventListener('abort', done)
        resolve()
      }
      const timer = this.machine.clock.setTimer(ms, done)
      signal?.addEventListener('abort', done, { once: true })
    })
  }

  /** A reader of events that is sometimes slow, so that gaps occur. */
  async #read(): Promise<void> {
    for await (const event of this.elector.events()) {
      if (event.type === 'gap') this.#checker.event(this, event)
      const nap = this.#random.chance(0.001) && this.elector.explain().phase !== 'stopped'
      if (nap) await this.#wait(3_600_000)
    }
  }

  #onEvent(event: ElectionEvent): void {
    this.#checker.event(this, event)
    if (event.type === 'elected') {
      this.openTerm = event.term
      // Elected by a read: an acquire whose answer was lost had been carried out.
      if (this.#lastVerb === 'read') this.#checker.counts.unknownResolved += 1
      this.lastTerm = event.term
      this.#renewedAtMs = -Infinity
      this.abortedAtMs = Infinity
    } else if (event.type === 'lost') {
      this.openTerm = undefined
    } else if (event.type === 'renewed') {
      this.#renewedAtMs = this.#world.nowMs
    }
    if (event.type !== 'renewed') this.#timeline.add(this.#world.nowMs, this.name, describe(event))
  }
}

function describe(event: ElectionEvent): string {
  switch (event.type) {
    case 'new-leader':
      return `sees ${event.record.holder} lead term ${event.record.term}`
    case 'elected':
      return `is elected, term ${event.term}`
    case 'renew-failed':
      return `could not renew term ${event.term} (${event.failures} in a row)`
    case 'lost':
      return `has lost term ${event.term}: ${event.reason}`
    case 'error':
      return `error: ${event.error instanceof Error ? event.error.message : String(event.error)}`
    default:
      return event.type
  }
}
