import { messageOf } from '@tenure/internal/message'
import {
  Elector,
  type ElectionEvent,
  type ElectorOptions,
  type Priority,
  type Leadership,
  type Lease,
  type LeaseRecord,
  type LeaseStore,
  type Outcome,
} from 'tenure'
import { leadsByClock, leaseOf, lossOf, priorities, rememberOrigin, resumeFrom, timingsOf } from 'tenure/internal'
import type { Checker } from './checker.ts'
import { longestArmingMs, type SimulatedGuard } from './guard.ts'
import type { Link } from './link.ts'
import { bootResolutionMs, type Machine } from './machine.ts'
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

/** What a simulated process says about whether it should lead. */
export interface SimulatedPreference {
  readonly priority: Priority
  /** Undefined if its work need not report progress. */
  readonly progressTimeoutMs: number | undefined
  /** Whether it takes a seat among the members. */
  readonly present: boolean
  /** The number of its rollout. Undefined if it has none. */
  readonly generation: number | undefined
  readonly maxMembers: number | undefined
}

/** One simulated process: an elector, its machine, its link to the store, and the work that it does while it leads. */
export class Candidate {
  readonly name: string
  readonly machine: Machine
  readonly link: Link
  /** Whether it should lead. Undefined if it does not say. */
  readonly preference: SimulatedPreference | undefined
  /** The guard of its process, if it has one. */
  readonly guard: SimulatedGuard | undefined
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
   * The minimum time between sending the last renewal and stepping down for a leader that cannot renew, allowing for
   * clock drift.
   */
  readonly leastPatienceMs: number
  /** Why it should not lead now. */
  unfit: 'ineligible' | 'stalled' | undefined
  /** Whether it should not have led when its newest leadership ended, by reason. */
  unfitAtEnd = { ineligible: false, stalled: false }
  #unfitAtMs = Infinity
  readonly #longestUnfitMs: number
  readonly #world: World
  readonly #random: Random
  readonly #checker: Checker
  readonly #timeline: Timeline
  readonly #habits: WorkProfile
  readonly #lease: Lease
  readonly #onStopped: (candidate: Candidate) => void
  /**
   * The write ids of this candidate's releases, which distinguish them from those of a clone. For a store without write
   * ids, the attempts.
   */
  readonly #writeIds = new Set<string>()
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
  /** The write ids that this candidate sent, with their attempts. */
  readonly #sent = new Map<string, string>()
  /** The attempts that no longer hold anything. */
  readonly #settled = new Set<string>()
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
    guard?: SimulatedGuard | undefined
    preference?: SimulatedPreference | undefined
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
    this.guard = options.guard
    this.preference = options.preference
    const { store } = options.elector
    const { leaseDurationMs, renewDeadlineMs, retryIntervalMs, driftRatio } = timingsOf(options.elector)
    const { preference } = options
    const { progressTimeoutMs = 0 } = preference ?? {}
    // By its own clock, which may be wrong by more than the electors allow for, plus the interval of the checks.
    this.#longestUnfitMs = (Math.max(2 * retryIntervalMs, progressTimeoutMs) + 2 * retryIntervalMs) / this.machine.rate
    this.leaseDurationMs = leaseDurationMs
    // Belief counts from the decision to renew, which is before the elector waits for a full pipe.
    this.leastPatienceMs = renewDeadlineMs * (1 - 2 * driftRatio) - (this.guard ? 2 * longestArmingMs : 0)
    this.elector = new Elector({
      ...options.elector,
      identity: options.name,
      clock: options.machine.clock,
      releaseOnCrash: this.guard !== undefined,
      ...(preference && {
        ...preference,
        eligible: () => this.unfit !== 'ineligible',
        priority: this.#random.chance(0.5) ? preference.priority : () => this.#random.pick(priorities),
      }),
      store: this.#traced(store),
      observer: {
        onEvent: (event) => this.#onEvent(event),
        onCall: ({ verb, result }) => {
          if (verb === 'acquire' && result === 'failed') this.#checker.counts.unknownOutcomes += 1
        },
      },
    })
    this.#lease = leaseOf(this.elector)
    this.#progressTimeoutMs = preference?.progressTimeoutMs
  }

  /** Records what the elector sends. */
  #traced(store: LeaseStore): LeaseStore {
    const traced: LeaseStore = {
      ...store,
      read: (election, call) => {
        if (election === this.elector.election) this.#lastVerb = 'read'
        return store.read(election, call)
      },
      acquire: (claim, call) => {
        if (claim.election !== this.elector.election) {
          this.#sends(claim)
          return store.acquire(claim, call)
        }
        this.#lastVerb = 'acquire'
        if (claim.attempt !== this.#attempt) this.#attemptSentAtMs = this.#world.nowMs
        this.#attempt = claim.attempt
        this.#attempts.add(claim.attempt)
        this.#sends(claim)
        return this.#settling(claim.attempt, false, store.acquire(claim, call))
      },
      renew: (claim, call) => {
        if (claim.election === this.elector.election) this.#renewSentAtMs = this.#world.nowMs
        this.#sends(claim)
        return store.renew(claim, call)
      },
      release: (claim, call) => {
        if (claim.election !== this.elector.election) return store.release(claim, call)
        this.#writeIds.add(claim.writeId ?? claim.attempt).add(claim.attempt)
        return this.#settling(claim.attempt, true, store.release(claim, call))
      },
    }
    if (this.guard) rememberOrigin(traced, { url: 'simulated:', isSlow: false, link: this.guard })
    return traced
  }

  /** I10: a working guard knows each write before it is sent. Otherwise a crash at this moment would cost a lease. */
  #sends({ attempt, writeId = attempt }: { readonly attempt: string; readonly writeId?: string | undefined }): void {
    this.#sent.set(writeId, attempt)
    if (!this.guard || this.guard.problem !== undefined || this.guard.knows({ attempt, writeId })) return
    this.#checker.violate('I10', `${this.name} sent a write that its guard does not know`)
  }

  /** A refused acquire and a confirmed release hold nothing. */
  async #settling(attempt: string, settlesIfOk: boolean, outcome: Promise<Outcome>): Promise<Outcome> {
    const answer = await outcome
    if (answer.ok === settlesIfOk) this.#settled.add(attempt)
    return answer
  }

  /** I10: a working guard knows what its process holds at the moment of a crash. */
  checkGuarded(record: LeaseRecord | undefined): void {
    if (!this.guard || !record || record.released || this.#settled.has(record.attempt)) return
    const isOwn = this.#sent.get(record.writeId ?? record.attempt) === record.attempt
    if (isOwn && !this.guard.knows(record))
      this.#checker.violate('I10', `${this.name} crashed and held a lease that its guard does not know`)
  }

  start(): void {
    this.elector.start()
    void this.#lead()
    void this.#read()
  }

  /** Continues as a clone of another candidate. */
  resumeFrom(original: Candidate): void {
    this.term = original.term
    this.openTerm = original.openTerm
    this.lastTerm = original.lastTerm
    // Both processes know an acquire that was in flight, and either may repeat it.
    this.#attempt = original.#attempt
    this.#attemptSentAtMs = original.#attemptSentAtMs
    this.#clonedAtMs = this.#world.nowMs
    original.#clonedAtMs = this.#world.nowMs
    void this.#read()
    if (original.guard) this.guard?.resumeFrom(original.guard)
    resumeFrom(this.elector, original.elector)
    void this.#lead()
  }

  /** Ends the process. */
  crash(): void {
    this.machine.crash()
    this.guard?.processEnded()
  }

  /** Stops permanently. A new process replaces it some time later. */
  stop(): void {
    if (this.stopping) return
    this.stopping = true
    void this.elector.stop().then(() => this.#onStopped(this))
  }

  /** I1: the candidate answers that it leads, or its event loop is running while its signal has not aborted. */
  believes(): boolean {
    if (this.machine.state !== 'running') return false
    // After a sleep, a leader that does not call isLeader() notices at a tick, within a tenth of its lease plus a
    // second.
    const groggy = this.#world.nowMs - this.machine.wokeAtMs < 1_100
    if (groggy || this.#isUnawareClone()) return false
    if (leadsByClock(this.elector)) return true
    const settled = this.machine.backlog === 0
    return settled && this.#leadership !== undefined && !lossOf(this.#leadership) && this.#signalIsDue()
  }

  /** The seat that it holds, as it believes. Undefined if it holds none, or does not run. */
  get seat(): number | undefined {
    const { state, wokeAtMs } = this.machine
    // After a sleep, its clock notices only at the next tick how long the sleep was.
    const isAware = state === 'running' && this.#world.nowMs - wokeAtMs > 1_100
    return isAware ? this.elector.explain().seat : undefined
  }

  /** Makes the process unfit to lead for a while. */
  beUnfit(why: 'ineligible' | 'stalled', forMs: number): void {
    if (this.unfit) return
    this.unfit = why
    this.#unfitAtMs = this.#world.nowMs
    this.#world.after(forMs, () => {
      this.unfit = undefined
      this.#unfitAtMs = Infinity
    })
  }

  /** I10: whether it still leads although it should have stepped down. A pause gives it more time. */
  overstays(): boolean {
    if (!this.unfit || (this.unfit === 'stalled' && this.#progressTimeoutMs === undefined)) return false
    const { machine } = this
    if (machine.state !== 'running' || machine.backlog > 0) return false
    const sinceMs = Math.max(this.#unfitAtMs, machine.resumedAtMs, this.#electedAtMs, this.#clonedAtMs)
    return this.#world.nowMs - sinceMs > this.#longestUnfitMs + bootResolutionMs + turnMs && leadsByClock(this.elector)
  }

  /** Whether it has not reported progress for the whole timeout, by its own clock. */
  #isSilent(): boolean {
    if (this.#progressTimeoutMs === undefined) return false
    const silentMs = (this.#world.nowMs - Math.max(this.#electedAtMs, this.#progressedAtMs)) * this.machine.rate
    return silentMs >= this.#progressTimeoutMs - bootResolutionMs
  }

  #electedAtMs = -Infinity
  #progressedAtMs = -Infinity
  readonly #progressTimeoutMs: number | undefined

  /** Reports progress while its work is not stalled. */
  async #report(leadership: Leadership, everyMs: number): Promise<void> {
    while (!leadership.signal.aborted) {
      if (this.unfit !== 'stalled') {
        leadership.progress()
        this.#progressedAtMs = this.#world.nowMs
      }
      await this.#wait(everyMs, leadership.signal)
    }
  }

  /** How long its last term lasted after its last renewal was sent, or Infinity if there was no renewal. */
  get patientForMs(): number {
    return this.#renewed ? this.abortedAtMs - this.#confirmedFromMs : Infinity
  }

  hasReleased(record: LeaseRecord): boolean {
    return this.#writeIds.has(record.writeId ?? record.attempt) || this.guard?.hasReleased(record) === true
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

  /** Whether the signal is overdue. Its timer may fire a few milliseconds late, while isLeader() is already false. */
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
      const noteEnd = () => {
        this.abortedAtMs = this.#world.nowMs
        this.unfitAtEnd = { ineligible: this.unfit === 'ineligible', stalled: this.#isSilent() }
      }
      leadership.signal.addEventListener('abort', noteEnd, { once: true })
      // Four times in each timeout, because timers of a busy machine are late.
      if (this.#progressTimeoutMs !== undefined) void this.#report(leadership, this.#progressTimeoutMs / 4)
      this.#listen(leadership)
      await this.#spend(leadership)
    }
  }

  async #spend(leadership: Leadership): Promise<void> {
    const habit = this.#random.next()
    // Some candidates only check whether they lead. If these start work at all, they start it when the signal aborts.
    if (habit < 0.2) return this.#wait(Infinity, leadership.signal)
    if (habit < 0.35) return this.#workInRounds(leadership)
    const work = this.#work(leadership)
    this.#waitUntil(leadership, work)
    await work
  }

  /** Adds listeners for the end of leadership. They call back into the elector, in any order. */
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
   * I1: work continues while its signal has not aborted. During that time the elector must lead according to its clock,
   * even if no timer has fired.
   */
  #goesOn(signal: AbortSignal): boolean {
    if (signal.aborted) return false
    if (!leadsByClock(this.elector))
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
      this.#electedAtMs = this.#world.nowMs
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
