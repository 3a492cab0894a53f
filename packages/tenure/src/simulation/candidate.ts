import { messageOf } from '@tenure/internal/message'
import { Elector, type ElectorOptions } from '../engine/elector.ts'
import type { ElectionEvent } from '../engine/events.ts'
import type { Leadership } from '../engine/leadership.ts'
import type { LeaseRecord } from '../engine/lease-store.ts'
import { Lease } from '../api/manager.ts'
import { timingsOf } from '../engine/timings.ts'
import type { Checker } from './checker.ts'
import type { Link } from './link.ts'
import type { Machine } from './machine.ts'
import type { Random } from './random.ts'
import type { Timeline } from './timeline.ts'
import type { World } from './world.ts'

/** The longest turn of the event loop, including its timers. */
const turnMs = 5

/** How the work of a simulated leader behaves. */
export interface WorkProfile {
  /** How long the work continues after its signal aborted. */
  readonly windDownMs: number
  /** How late a write may arrive at the guarded resource. */
  readonly writeDelayMs: number
  readonly writeEveryMs: number
}

/** One simulated process: an elector, its machine, its link to the store, and the work that it does while it leads. */
export class Candidate {
  readonly name: string
  readonly machine: Machine
  readonly link: Link
  readonly elector: Elector
  /** The term of the newest leadership. */
  term = 0
  /** The term that was reported as elected and not yet as lost. */
  openTerm: number | undefined
  lastTerm = 0
  stopping = false
  /** When the signal of its newest leadership aborted. */
  abortedAtMs = 0
  readonly leaseDurationMs: number
  /**
   * The shortest time after its last renewal was sent at which a leader that cannot renew may step down, allowing for
   * clock drift.
   */
  readonly leastPatienceMs: number
  readonly #world: World
  readonly #random: Random
  readonly #checker: Checker
  readonly #timeline: Timeline
  readonly #habits: WorkProfile
  readonly #lease: Lease
  readonly #onStopped: (candidate: Candidate) => void
  /**
   * The write ids of its releases, which distinguish them from those of a clone. For a store without write ids, the
   * attempts.
   */
  readonly #marks = new Set<string>()
  /** The term of each piece of work that must settle before the lease of that term is released. */
  readonly #pieces = new Map<object, number>()
  #leadership: Leadership | undefined
  #lastVerb = ''
  #renewed = false
  #renewSentAtMs = -Infinity
  /** When the newest answered renewal was sent. */
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
    habits: WorkProfile
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

  /** Continues from here as a clone of another candidate. */
  resumeFrom(original: Candidate): void {
    this.term = original.term
    this.openTerm = original.openTerm
    this.lastTerm = original.lastTerm
    // Both know an acquire that was in flight, and either may repeat it.
    this.#attempt = original.#attempt
    this.#attemptSentAtMs = original.#attemptSentAtMs
    this.#clonedAtMs = this.#world.nowMs
    original.#clonedAtMs = this.#world.nowMs
    void this.#read()
    this.elector.resumeFrom(original.elector)
    void this.#lead()
  }

  /** Stops permanently. A new process replaces it some time later. */
  stop(): void {
    if (this.stopping) return
    this.stopping = true
    void this.elector.stop().then(() => this.#onStopped(this))
  }

  /** I1: the candidate answers that it leads, or its event loop runs while the signal that it holds has not aborted. */
  believes(): boolean {
    if (this.machine.state !== 'running') return false
    // After a sleep, a leader that does not call isLeader() notices at a tick, within a tenth of its lease plus a
    // second.
    const groggy = this.#world.nowMs - this.machine.wokeAtMs < 1_100
    if (groggy || this.#isUnawareClone()) return false
    if (this.elector.leadsByClock()) return true
    const settled = this.machine.backlog === 0
    return settled && this.#leadership !== undefined && !this.#leadership.loss && this.#signalIsDue()
  }

  /** How long its last term lasted after its last renewal was sent. Infinity if there was no renewal. */
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

  /**
   * A clone of a leader learns that it is a clone at its first renewal or at its deadline. See
   * docs/explanation/timing.md.
   */
  #isUnawareClone(): boolean {
    const sinceMs = this.#clonedAtMs
    // An acquire that follows a loss is sent one turn of the event loop after its attempt began.
    const claimedBefore = this.#attemptSentAtMs <= sinceMs + turnMs && this.#confirmedFromMs < sinceMs
    return claimedBefore && this.#world.nowMs - sinceMs < this.leaseDurationMs
  }

  /** A timer may fire a few milliseconds late. isLeader() is already false then, and the signal follows. */
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
    // Some candidates only ask whether they lead, and start work, if any, when the signal aborts.
    if (habit < 0.2) return this.#wait(Infinity, leadership.signal)
    if (habit < 0.35) return this.#workInRounds(leadership)
    const work = this.#work(leadership)
    this.#waitUntil(leadership, work)
    await work
  }

  /** Listeners for the end of leadership may call back into the elector, in any order. */
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
      // The leadership was lost or is being released, so nothing waits for this work.
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

  /** Runs rounds of work under the lease. A round runs to completion even when leadership ends during it. */
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

  /**
   * Writes from time to time. When its signal aborts, it winds down at its own pace, and its last write may arrive
   * late.
   */
  async #work({ signal, term }: Leadership): Promise<void> {
    const { windDownMs, writeDelayMs, writeEveryMs } = this.#habits
    while (this.#goesOn(signal)) {
      await this.#wait(this.#random.waiting(writeEveryMs), signal)
      this.#world.after(this.#random.next() ** 4 * writeDelayMs, () => this.#checker.write(term))
    }
    await this.#wait(this.#random.next() * windDownMs)
  }

  /**
   * I1: work continues while its signal has not aborted. The elector must lead by its clock then, even if no timer has
   * run.
   */
  #goesOn(signal: AbortSignal): boolean {
    if (signal.aborted) return false
    if (!this.elector.leadsByClock())
      this.#checker.violate('I1', `${this.name} works under a signal that has not aborted although its lease has ended`)
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

  /** Reads events, sometimes slowly, so that gaps occur. */
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
      // Elected by a read: the store had applied an acquire whose answer was lost.
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
      return `lost term ${event.term}: ${event.reason}`
    case 'error':
      return `error: ${messageOf(event.error)}`
    default:
      return event.type
  }
}
