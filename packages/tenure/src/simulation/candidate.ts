import { messageOf } from '@tenure/internal/message'
import { Elector, type ElectorOptions } from '../elector.ts'
import type { ElectionEvent } from '../events.ts'
import type { Leadership } from '../leadership.ts'
import type { LeaseRecord } from '../lease-store.ts'
import { Lease } from '../styles/manager.ts'
import { timingsOf } from '../timings.ts'
import type { Checker } from './checker.ts'
import type { Link } from './link.ts'
import type { Machine } from './machine.ts'
import type { Random } from './random.ts'
import type { Timeline } from './timeline.ts'
import type { World } from './world.ts'

/** How long a turn of the event loop takes at most, with its timers. */
const turnMs = 5

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
  /** When its newest leadership's signal aborted. */
  abortedAtMs = 0
  readonly leaseDurationMs: number
  /** Until a leader that cannot renew may give up, from the sending of its last renewal, less what its clock may cost. */
  readonly leastPatienceMs: number
  readonly #world: World
  readonly #random: Random
  readonly #checker: Checker
  readonly #timeline: Timeline
  readonly #habits: WorkHabits
  readonly #lease: Lease
  readonly #onStopped: (candidate: Candidate) => void
  /** What its releases were marked with, which distinguishes them from those of a clone; where a store keeps no marks, attempts. */
  readonly #marks = new Set<string>()
  /** The term of each piece of work that must settle before its lease is released. */
  readonly #pieces = new Map<object, number>()
  #leadership: Leadership | undefined
  #lastVerb = ''
  #renewed = false
  #renewSentAtMs = -Infinity
  /** When its newest renewal that was answered had been sent. */
  #confirmedFromMs = -Infinity
  #clonedAtMs = -Infinity
  #attempt = ''
  readonly #attempts = new Set<string>()
  #attemptSentAtMs = -Infinity

  constructor(options: {
    name: string
    world: World
    random: Random
    machine: Machine
    link: Link
    checker: Checker
    timeline: Timeline
    habits: WorkHabits
    onStopped: (candidate: Candidate) => void
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
    this.#onStopped = options.onStopped
    const { store } = options.elector
    const { leaseDurationMs, renewDeadlineMs, driftRatio } = timingsOf(options.elector)
    this.leaseDurationMs = leaseDurationMs
    this.leastPatienceMs = renewDeadlineMs * (1 - 2 * driftRatio)
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
          if (claim.attempt !== this.#attempt) this.#attemptSentAtMs = this.#world.nowMs
          this.#attempt = claim.attempt
          this.#attempts.add(claim.attempt)
          return store.acquire(claim, call)
        },
        renew: (claim, call) => {
          this.#renewSentAtMs = this.#world.nowMs
          return store.renew(claim, call)
        },
        release: (claim, call) => {
          this.#marks.add(claim.mark ?? claim.attempt).add(claim.attempt)
          return store.release(claim, call)
        },
      },
      observer: {
        onEvent: (event) => this.#onEvent(event),
        onCall: ({ verb, result }) => {
          if (verb === 'acquire' && result === 'failed') this.#checker.counts.unknownOutcomes += 1
        },
      },
    })
    this.#lease = new Lease(this.elector)
  }

  start(): void {
    this.elector.start()
    void this.#lead()
    void this.#read()
  }

  /** Goes on as a clone of another, from this moment on. */
  resumeFrom(original: Candidate): void {
    this.term = original.term
    this.openTerm = original.openTerm
    this.lastTerm = original.lastTerm
    // An acquire that was under way is known to both, and either may repeat it.
    this.#attempt = original.#attempt
    this.#attemptSentAtMs = original.#attemptSentAtMs
    this.#clonedAtMs = this.#world.nowMs
    original.#clonedAtMs = this.#world.nowMs
    void this.#read()
    this.elector.resumeFrom(original.elector)
    void this.#lead()
  }

  /** Stops for good; a new process takes its place some time later. */
  stop(): void {
    if (this.stopping) return
    this.stopping = true
    void this.elector.stop().then(() => this.#onStopped(this))
  }

  /** I1: answers that it leads, or holds a signal that has not aborted while its event loop runs. */
  believes(): boolean {
    if (this.machine.state !== 'running') return false
    // After a sleep, a leader that asks nothing learns of it by a tick, within a tenth of its lease and a second.
    const groggy = this.#world.nowMs - this.machine.wokeAtMs < 1_100
    if (groggy || this.#isUnawareClone()) return false
    if (this.elector.leadsByClock()) return true
    const settled = this.machine.backlog === 0
    return settled && this.#leadership !== undefined && !this.#leadership.loss && this.#signalIsDue()
  }

  /** How long its last term went on after it had sent its last renewal; for ever if there was none. */
  get patientForMs(): number {
    return this.#renewed ? this.abortedAtMs - this.#confirmedFromMs : Infinity
  }

  hasReleased({ attempt, mark }: LeaseRecord): boolean {
    return this.#marks.has(mark ?? attempt)
  }

  hasAskedFor({ attempt }: LeaseRecord): boolean {
    return this.#attempts.has(attempt)
  }

  get isWorking(): boolean {
    return this.#pieces.size > 0
  }

  runsWorkOf(term: number): boolean {
    return this.machine.state !== 'dead' && [...this.#pieces.values()].includes(term)
  }

  /** A clone of a leader learns that it is one by its first renewal, or by its deadline: docs/explanation/timing.md says so. */
  #isUnawareClone(): boolean {
    const sinceMs = this.#clonedAtMs
    // An acquire that follows a loss is sent a turn of the event loop after its attempt began.
    const claimedBefore = this.#attemptSentAtMs <= sinceMs + turnMs && this.#confirmedFromMs < sinceMs
    return claimedBefore && this.#world.nowMs - sinceMs < this.leaseDurationMs
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
      leadership.signal.addEventListener('abort', () => (this.abortedAtMs = this.#world.nowMs), { once: true })
      this.#listen(leadership)
      await this.#spend(leadership)
    }
  }

  async #spend(leadership: Leadership): Promise<void> {
    const habit = this.#random.next()
    // Some only ask whether they lead, and hand in work when the signal aborts, if at all.
    if (habit < 0.2) return this.#wait(Infinity, leadership.signal)
    if (habit < 0.35) return this.#workInRounds(leadership)
    const work = this.#work(leadership)
    this.#waitUntil(leadership, work)
    await work
  }

  /** What listens to the end may call back in, in any order. */
  #listen(leadership: Leadership): void {
    const flushMs = this.#random.next() * this.#habits.windDownMs
    const listeners: [number, () => void][] = [
      [0.02, () => this.stop()],
      [0.2, () => void this.elector.stepDown({ cooldownMs: flushMs })],
      [0.3, () => this.#waitUntil(leadership, this.#wait(flushMs))],
    ]
    for (const [chance, listener] of this.#random.shuffle(listeners)) {
      if (this.#random.chance(chance)) leadership.signal.addEventListener('abort', listener, { once: true })
    }
  }

  #waitUntil(leadership: Leadership, work: Promise<void>): void {
    try {
      leadership.waitUntil(work)
    } catch {
      // It was lost, or is being released: nobody waits for this.
      return
    }
    this.#note(leadership, work)
    if (leadership.signal.aborted) this.#checker.counts.lateWork += 1
  }

  #note({ term }: Leadership, work: Promise<void>): void {
    const piece = {}
    this.#pieces.set(piece, term)
    void work.then(() => this.#pieces.delete(piece))
  }

  /** Rounds by the lease. They run to their end even when leadership ends meanwhile. */
  async #workInRounds({ signal }: Leadership): Promise<void> {
    const { windDownMs, writeDelayMs, writeEveryMs } = this.#habits
    while (this.#goesOn(signal)) {
      await this.#wait(this.#random.waiting(writeEveryMs), signal)
      await this.#lease.run(async (current) => {
        const round = this.#wait(this.#random.next() * (writeEveryMs + windDownMs))
        this.#note(current, round)
        await round
        if (current.signal.aborted) this.#checker.counts.lateRounds += 1
        this.#world.after(this.#random.next() ** 4 * writeDelayMs, () => this.#checker.write(current.term))
      })
    }
  }

  /** Writes from time to time; when its signal aborts, winds down at its own pace, and its last write may hang about. */
  async #work({ signal, term }: Leadership): Promise<void> {
    const { windDownMs, writeDelayMs, writeEveryMs } = this.#habits
    while (this.#goesOn(signal)) {
      await this.#wait(this.#random.waiting(writeEveryMs), signal)
      this.#world.after(this.#random.next() ** 4 * writeDelayMs, () => this.#checker.write(term))
    }
    await this.#wait(this.#random.next() * windDownMs)
  }

  /** I1: work goes on while its signal has not aborted, so it leads by the clock then, even if no timer has run since. */
  #goesOn(signal: AbortSignal): boolean {
    if (signal.aborted) return false
    if (!this.elector.leadsByClock()) this.#checker.violate('I1', `${this.name} works by a signal that has not aborted`)
    return true
  }

  #wait(ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        timer?.cancel()
        signal?.removeEventListener('abort', done)
        resolve()
      }
      const timer = ms < Infinity ? this.machine.clock.setTimer(ms, done) : undefined
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
      this.#renewed = false
      this.abortedAtMs = Infinity
    } else if (event.type === 'lost') {
      this.openTerm = undefined
    } else if (event.type === 'renewed') {
      this.#renewed = true
      this.#confirmedFromMs = this.#renewSentAtMs
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
      return `error: ${messageOf(event.error)}`
    default:
      return event.type
  }
}
