import { messageOf } from '@tenure/internal/message'
import {
  type CallOptions,
  casStore,
  type Clock,
  type CompareAndSwap,
  isTenureError,
  type LeaseRecord,
  type LeaseStore,
  memoryStore,
  type TimingOptions,
} from 'tenure'
import { checkFound, checkOutcome, checkStore, latestDeadlineMs, priorities, requestHandOver } from 'tenure/internal'
import { type Current, decodeRecord, type SwapServer, swapStore } from 'tenure/store-kit'
import { Candidate, type SimulatedPreference, type WorkProfile } from './candidate.ts'
import type { Checker } from './checker.ts'
import { GuardProcess } from './guard-process.ts'
import { SimulatedGuard } from './guard.ts'
import { fairWeather, Link, linkKv, linkStore, linkSwap, LinkServer } from './link.ts'
import { Machine } from './machine.ts'
import type { Random } from './random.ts'
import { simulatedKv } from './simulated-kv.ts'
import { simulatedSwap } from './simulated-swap.ts'
import type { Timeline } from './timeline.ts'
import type { World } from './world.ts'

/** The election in which every simulated fleet takes part. */
export const simulatedElection = 'simulated'

/** The library's stores that a fleet can use. */
export const storeNames = ['memory', 'swap-watched', 'cas-watched', 'cas-polled'] as const

/** The store of the fleet: one of the library, or a store under test that is created with the server's clock. */
export type StoreChoice = (typeof storeNames)[number] | ((clock: Clock) => LeaseStore)

/** A backend of `casStore` under test, created with the server's clock. */
export interface BackendChoice {
  readonly backend: (clock: Clock) => CompareAndSwap
}

/** The size and behavior of a fleet. */
export interface FleetPlan {
  readonly size: number
  readonly store: StoreChoice | BackendChoice
  readonly leaseDurationsMs: readonly number[]
  readonly driftRatio: number
  /** The shortest and the longest time that a message takes. */
  readonly latenciesMs: readonly [number, number]
  /** `tight` uses every millisecond that the constructor allows, so that the smallest mistake shows. */
  readonly timings: 'usual' | 'frequent' | 'tight'
  readonly replayEveryMs: number
  /** The maximum true error of each clock's rate. */
  readonly clockErrorRatio: number
  readonly habits: WorkProfile
  /** The longest time until a stopped process is replaced. */
  readonly stoppedForMs: number
  /** Whether each process has a guard. */
  readonly isGuarded: boolean
  /** Whether the processes say whether they should lead. */
  readonly isPreferring: boolean
  /** How many seats there are among the members. 0 if no process takes one. */
  readonly seats: number
}

/** Candidates that start and stop, and the server that they use. */
export class SimulatedFleet {
  readonly server: LinkServer
  candidates: Candidate[] = []
  readonly #world: World
  readonly #random: Random
  readonly #timeline: Timeline
  readonly #checker: Checker
  readonly #plan: FleetPlan
  /** Returns the store as seen through a link, or directly on the server if there is no link. */
  readonly #storeFor: (link: Link | undefined, clock: Clock) => LeaseStore
  readonly #inside: LeaseStore
  #delete: (() => void) | undefined
  /** How many processes have started. */
  #started = 0
  #deletedAtMs = -Infinity

  constructor(world: World, random: Random, timeline: Timeline, checker: Checker, plan: FleetPlan) {
    this.#world = world
    this.#random = random
    this.#timeline = timeline
    this.#checker = checker
    this.#plan = plan
    this.server = new LinkServer(world)
    const { clock } = this.#machine()
    if (plan.store === 'cas-watched' || plan.store === 'cas-polled') {
      const kv = simulatedKv({ watch: plan.store === 'cas-watched' })
      // Behaves like the Kubernetes store, which supports watches and reads first.
      this.#storeFor = this.#openCas(kv, plan.store === 'cas-watched')
      this.#delete = () => kv.delete(simulatedElection)
    } else if (plan.store === 'swap-watched') {
      const server = simulatedSwap()
      this.#storeFor = this.#openSwap(server)
      this.#delete = () => server.delete(simulatedElection)
    } else if (typeof plan.store === 'object') {
      this.#storeFor = this.#openCas(plan.store.backend(clock))
    } else {
      const memory = memoryStore({ clock })
      const store = this.#watchGrants(plan.store === 'memory' ? memory : this.#usable(plan.store(clock)))
      this.#storeFor = (link) => (link ? linkStore(link, store) : store)
      if (plan.store === 'memory') this.#delete = () => memory.delete(simulatedElection)
    }
    this.#inside = this.#storeFor(undefined, clock)
    for (let index = 0; index < plan.size; index += 1) this.#add(`node-${index}`).start()
  }

  /**
   * A compare-and-swap store that loses its terms with the record cannot tell a late creation from a timely one if the
   * record is created and deleted while that creation is in flight. The store's guarantee table documents this.
   */
  mayDelete(): boolean {
    if (keepsTerms(this.#plan.store)) return true
    // A candidate that has never received an answer cannot tell either.
    if (!this.candidates.every(({ elector }) => elector.leader())) return false
    const longAgo = this.#world.nowMs - this.#deletedAtMs > 600_000
    if (longAgo) this.#deletedAtMs = this.#world.nowMs
    return longAgo
  }

  /** Deletes the record as an operator would. */
  deleteRecord(): void {
    this.#timeline.add(this.#world.nowMs, 'FAULT', 'the record is deleted')
    this.#delete?.()
  }

  /** Rewrites the record without changing it, as another program or a delayed copy of a renewal would. */
  async touchRecord(): Promise<void> {
    const call = { signal: new AbortController().signal }
    try {
      const record = await this.#inside.read(simulatedElection, call)
      if (record) await this.#inside.renew(record, call)
    } catch (error) {
      // If the store under test fails here, it also fails for its candidates, and they report the error.
      this.#timeline.add(this.#world.nowMs, 'FAULT', `the record could not be rewritten: ${messageOf(error)}`)
    }
  }

  /** Replaces a dead or stopped process with a new one of the same name. */
  replace(old: Candidate): void {
    if (!this.candidates.includes(old)) return
    // A guard acts only after the whole process has ended.
    if (old.guard && old.machine.state !== 'dead') this.crash(old)
    this.#remove(old)
    this.#add(old.name).start()
  }

  /** Ends a process, and checks that its guard knows what the process held. */
  crash(victim: Candidate): void {
    const isGuarded = victim.guard && victim.guard.problem === undefined && victim.machine.state !== 'dead'
    victim.crash()
    if (!isGuarded) return
    const call = { signal: new AbortController().signal }
    void this.#inside.read(simulatedElection, call).then((record) => victim.checkGuarded(record))
  }

  /** Restores a snapshot of a candidate's machine next to the original. One of the two dies some time later. */
  clone(original: Candidate, forMs: number): void {
    const clone = this.#add(original.name, original)
    clone.resumeFrom(original)
    const mortal = this.#random.chance(0.5) ? clone : original
    this.#world.after(forMs, () => {
      this.crash(mortal)
      this.#remove(mortal)
    })
  }

  #remove(old: Candidate): void {
    this.candidates = this.candidates.filter((candidate) => candidate !== old)
  }

  #add(name: string, like?: Candidate): Candidate {
    const machine = this.#machine(like?.machine)
    const random = this.#random.fork()
    const weather = fairWeather(this.#random.magnitude(...this.#plan.latenciesMs), this.#plan.replayEveryMs)
    const link = new Link({ world: this.#world, random, machine, server: this.server, weather })
    const { leaseDurationMs = this.#random.pick(this.#plan.leaseDurationsMs) } = like ?? {}
    const candidate = new Candidate({
      name,
      world: this.#world,
      random,
      machine,
      link,
      checker: this.#checker,
      timeline: this.#timeline,
      habits: this.#plan.habits,
      preference: this.#plan.isPreferring ? (like?.preference ?? this.#preference(leaseDurationMs)) : undefined,
      guard: this.#plan.isGuarded ? this.#guard(name, machine, leaseDurationMs) : undefined,
      onStopped: (stopped) => {
        const awayMs = random.next() * this.#plan.stoppedForMs
        this.#checker.fault(this.#world.nowMs + awayMs)
        this.#world.after(awayMs, () => this.replace(stopped))
      },
      elector: {
        store: this.#storeFor(link, machine.clock),
        election: simulatedElection,
        ...this.#timings(leaseDurationMs),
        drainTimeoutMs: 20_000,
      },
    })
    this.candidates.push(candidate)
    return candidate
  }

  #preference(leaseDurationMs: number): SimulatedPreference {
    return {
      priority: this.#random.pick(priorities),
      progressTimeoutMs: this.#random.chance(0.5) ? this.#random.between(0.3, 2) * leaseDurationMs : undefined,
      ...this.#presence(),
    }
  }

  /** A process that replaces another one is of a newer generation. */
  #presence(): Pick<SimulatedPreference, 'present' | 'generation' | 'maxMembers'> {
    const { size, seats } = this.#plan
    if (seats === 0) return { present: false, generation: undefined, maxMembers: undefined }
    const generation = Math.floor(this.#started++ / size)
    return { present: true, generation: this.#random.chance(0.8) ? generation : undefined, maxMembers: seats }
  }

  /** Asks the leader to hand over to a candidate, as an administrator does, from a process that may crash. */
  requestHandOver(to: string): void {
    const machine = this.#machine()
    const random = this.#random.fork()
    const weather = fairWeather(this.#random.magnitude(...this.#plan.latenciesMs), Infinity)
    const link = new Link({ world: this.#world, random, machine, server: this.server, weather })
    const { clock } = machine
    const ended = new AbortController()
    const request = { election: simulatedElection, to, identity: `request-${clock.randomId()}`, clock }
    const limits = { waitMs: 60_000, timeoutMs: 5_000, signal: ended.signal }
    this.#checker.counts.requests += 1
    if (random.chance(0.2)) this.#world.after(random.magnitude(100, 20_000), () => machine.crash())
    void requestHandOver(this.#storeFor(link, clock), { ...request, ...limits }).then(
      ({ result }) => {
        if (result === 'handed-over') this.#checker.counts.requestsFollowed += 1
        this.#timeline.add(this.#world.nowMs, request.identity, `asked for ${to}: ${result}`)
      },
      // The store did not answer.
      () => undefined,
    )
  }

  /** A guard with its own machine and its own network. Their faults are independent of those of its process. */
  #guard(name: string, process: Machine, leaseDurationMs: number): SimulatedGuard {
    const start = (isGone: () => boolean) => {
      const machine = this.#machine()
      const random = this.#random.fork()
      const weather = fairWeather(this.#random.magnitude(...this.#plan.latenciesMs), Infinity)
      const link = new Link({ world: this.#world, random, machine, server: this.server, weather })
      const onReleased = () => {
        this.#checker.counts.crashReleases += 1
        this.#timeline.add(this.#world.nowMs, `guard of ${name}`, 'has released the lease')
      }
      return new GuardProcess({ machine, link, store: this.#storeFor(link, machine.clock), isGone, onReleased })
    }
    return new SimulatedGuard({
      world: this.#world,
      random: this.#random.fork(),
      machine: process,
      leaseDurationMs,
      start,
    })
  }

  #timings(leaseDurationMs: number): TimingOptions {
    const { driftRatio, timings } = this.#plan
    const usual = { leaseDurationMs, driftRatio }
    if (timings === 'usual') return usual
    // The same interval that a LeaderElector uses.
    const retryIntervalMs = (leaseDurationMs * 2) / 15
    if (timings === 'frequent')
      return {
        ...usual,
        renewIntervalMs: retryIntervalMs,
        renewDeadlineMs: (leaseDurationMs * 12) / 15,
        retryIntervalMs,
      }
    return {
      ...usual,
      renewDeadlineMs: latestDeadlineMs(leaseDurationMs, driftRatio),
      renewIntervalMs: leaseDurationMs / 3,
      retryIntervalMs: leaseDurationMs / 30,
    }
  }

  #machine(like?: Machine): Machine {
    const error = this.#plan.clockErrorRatio
    // Violations show up at the extremes, so half of all clocks run at an extreme rate.
    const off = this.#random.chance(0.5) ? this.#random.pick([-error, error]) : this.#random.between(-error, error)
    return new Machine(this.#world, this.#random.fork(), 1 + off, like)
  }

  #openCas(backend: CompareAndSwap, readsFirst = false): (link: Link | undefined, clock: Clock) => LeaseStore {
    const { watch } = backend
    const watched: CompareAndSwap = {
      get: async (election, call) => backend.get(election, call),
      putIfVersion: this.#watchPuts((...args) => backend.putIfVersion(...args)),
      ...(watch && { watch: (election, call) => watch.call(backend, election, call) }),
    }
    return (link, clock) => this.#usable({ ...casStore(link ? linkKv(link, watched) : watched, { clock }), readsFirst })
  }

  #openSwap(server: SwapServer<Current>): (link: Link | undefined, clock: Clock) => LeaseStore {
    const watched: SwapServer<Current> = {
      ...server,
      swap: async (...args) => {
        const swapped = await server.swap(...args)
        if (swapped.ok) this.#note(swapped.found.record)
        return swapped
      },
    }
    return (link, clock) => this.#usable(swapStore(link ? linkSwap(link, watched) : watched, clock))
  }

  /**
   * Wraps the store under test. An answer that no elector can use ends the run. Otherwise the run would only show that
   * nobody leads.
   */
  #usable(store: LeaseStore): LeaseStore {
    checkStore(store)
    const { watch } = store
    const note = (error: unknown): never => {
      if (isTenureError(error) && error.code === 'RECORD_INVALID') this.#checker.unusable ??= error
      throw error
    }
    const checked = async <T>(call: () => Promise<unknown>, check: (answer: unknown) => T): Promise<T> => {
      try {
        return check(await call())
      } catch (error) {
        return note(error)
      }
    }
    return {
      expiry: store.expiry,
      terms: store.terms,
      readsFirst: store.readsFirst ?? false,
      read: (election, call) => checked(() => store.read(election, call), checkFound),
      acquire: (claim, call) => checked(() => store.acquire(claim, call), checkOutcome),
      renew: (claim, call) => checked(() => store.renew(claim, call), checkOutcome),
      release: (claim, call) => checked(() => store.release(claim, call), checkOutcome),
      ...(watch && {
        async *watch(election: string, call: CallOptions) {
          try {
            for await (const record of watch.call(store, election, call)) yield checkFound(record)
          } catch (error) {
            note(error)
          }
        },
      }),
    }
  }

  #watchGrants(store: LeaseStore): LeaseStore {
    return {
      ...store,
      acquire: async (claim, call) => {
        const outcome = await store.acquire(claim, call)
        if (outcome.ok) this.#granted(outcome.record)
        return outcome
      },
      release: async (claim, call) => {
        const outcome = await store.release(claim, call)
        if (outcome.ok) this.#released(outcome.record)
        return outcome
      },
    }
  }

  #watchPuts(put: CompareAndSwap['putIfVersion']): typeof put {
    return async (election, value, version, call) => {
      const written = await put(election, value, version, call)
      if (typeof written !== 'string') return written
      this.#note({ ...decodeRecord(value), version: written })
      return written
    }
  }

  #note(record: LeaseRecord): void {
    if (record.released) this.#released(record)
    else this.#granted(record)
  }

  #granted(record: LeaseRecord): void {
    if (record.election === simulatedElection) this.#checker.granted(record, this.candidates)
    else this.#checker.seatGranted(record, this.candidates)
  }

  #released(record: LeaseRecord): void {
    if (record.election !== simulatedElection) return
    const { counts } = this.#checker
    counts.newerGenerations += this.candidates.filter(({ elector }) => elector.explain().newerGeneration).length
    this.#checker.released(record, this.candidates)
  }
}

/** Returns whether the highest term outlives a deleted record. */
export function keepsTerms(store: StoreChoice | BackendChoice): boolean {
  return store === 'memory' || store === 'swap-watched'
}
