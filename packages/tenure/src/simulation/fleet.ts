import type { Clock } from '../clock.ts'
import type { LeaseRecord, LeaseStore } from '../lease-store.ts'
import { casStore, type CompareAndSwap } from '../stores/cas.ts'
import { memoryStore } from '../stores/memory.ts'
import { decodeRecord } from '../stores/record.ts'
import { holderShareMs, type TimingOptions } from '../timings.ts'
import { Candidate, type WorkHabits } from './candidate.ts'
import type { Checker } from './checker.ts'
import { fairWeather, Link, linkKv, linkStore, Server } from './link.ts'
import { Machine } from './machine.ts'
import type { Random } from './random.ts'
import { simulatedKv } from './simulated-kv.ts'
import type { Timeline } from './timeline.ts'
import type { World } from './world.ts'

/** The election that every simulated fleet holds. */
export const simulatedElection = 'simulated'

/** The stores of the library that a fleet can elect on. */
export const storeNames = ['memory', 'cas-watched', 'cas-polled'] as const

/** What the fleet elects on: a store of the library, or one under test, made on the server's clock. */
export type StoreChoice = (typeof storeNames)[number] | ((clock: Clock) => LeaseStore)

/** A backend of `casStore` under test, made on the server's clock. */
export interface BackendChoice {
  readonly backend: (clock: Clock) => CompareAndSwap
}

/** The size and habits of a fleet. */
export interface FleetPlan {
  readonly size: number
  readonly store: StoreChoice | BackendChoice
  readonly leaseDurationsMs: readonly number[]
  readonly driftRatio: number
  /** Use every millisecond that the constructor allows, so that the smallest mistake shows. */
  readonly tight: boolean
  readonly replayEveryMs: number
  /** The true error of each clock's rate is at most this. */
  readonly clockErrorRatio: number
  readonly habits: WorkHabits
}

/** Candidates that come and go, and the server they elect on. */
export class Fleet {
  readonly server: Server
  candidates: Candidate[] = []
  readonly #world: World
  readonly #random: Random
  readonly #timeline: Timeline
  readonly #checker: Checker
  readonly #plan: FleetPlan
  /** The store as seen through a link, or from inside the server. */
  readonly #storeFor: (link: Link | undefined, clock: Clock) => LeaseStore
  readonly #inside: LeaseStore
  #delete: (() => void) | undefined
  #deletedAtMs = -Infinity

  constructor(world: World, random: Random, timeline: Timeline, checker: Checker, plan: FleetPlan) {
    this.#world = world
    this.#random = random
    this.#timeline = timeline
    this.#checker = checker
    this.#plan = plan
    this.server = new Server(world)
    const { clock } = this.#machine()
    if (plan.store === 'cas-watched' || plan.store === 'cas-polled') {
      const kv = simulatedKv({ watch: plan.store === 'cas-watched' })
      this.#storeFor = this.#openCas(kv)
      this.#delete = () => kv.delete(simulatedElection)
    } else if (typeof plan.store === 'object') {
      this.#storeFor = this.#openCas(plan.store.backend(clock))
    } else {
      const memory = memoryStore({ clock })
      const store = this.#watchGrants(plan.store === 'memory' ? memory : plan.store(clock))
      this.#storeFor = (link) => (link ? linkStore(link, store) : store)
      if (plan.store === 'memory') this.#delete = () => memory.delete(simulatedElection)
    }
    this.#inside = this.#storeFor(undefined, clock)
    for (let index = 0; index < plan.size; index += 1) this.#add(`node-${index}`)
  }

  /**
   * A compare-and-swap store cannot tell a late creation from a timely one if its record is created and deleted while
   * that creation is under way: its guarantee table says so.
   */
  mayDelete(): boolean {
    if (this.#plan.store === 'memory') return true
    const longAgo = this.#world.nowMs - this.#deletedAtMs > 600_000
    if (longAgo) this.#deletedAtMs = this.#world.nowMs
    return longAgo
  }

  /** Deletes the record the way an operator would. */
  deleteRecord(): void {
    this.#timeline.add(this.#world.nowMs, 'FAULT', 'the record is deleted')
    this.#delete?.()
  }

  /** Somebody else writes the record without changing it, or a late copy of a renewal is applied. */
  async touchRecord(): Promise<void> {
    const call = { signal: new AbortController().signal }
    const record = await this.#inside.read(simulatedElection, call)
    if (record) await this.#inside.renew(record, call)
  }

  /** A new process takes a dead or stopped one's place, under the same name. */
  replace(old: Candidate): void {
    this.candidates = this.candidates.filter((candidate) => candidate !== old)
    this.#add(old.name)
  }

  #add(name: string): void {
    const machine = this.#machine()
    const random = this.#random.fork()
    const weather = fairWeather(this.#random.magnitude(0.5, 30), this.#plan.replayEveryMs)
    const link = new Link({ world: this.#world, random, machine, server: this.server, weather })
    const candidate = new Candidate({
      name,
      world: this.#world,
      random,
      machine,
      link,
      checker: this.#checker,
      timeline: this.#timeline,
      habits: this.#plan.habits,
      elector: {
        store: this.#storeFor(link, machine.clock),
        election: simulatedElection,
        ...this.#timings(this.#random.pick(this.#plan.leaseDurationsMs)),
        drainTimeoutMs: 20_000,
      },
    })
    this.candidates.push(candidate)
    candidate.start()
  }

  #timings(leaseDurationMs: number): TimingOptions {
    const { driftRatio, tight } = this.#plan
    if (!tight) return { leaseDurationMs, driftRatio }
    return {
      leaseDurationMs,
      driftRatio,
      renewDeadlineMs: holderShareMs(leaseDurationMs, driftRatio) - leaseDurationMs / 20,
      renewIntervalMs: leaseDurationMs / 3,
      retryIntervalMs: leaseDurationMs / 30,
    }
  }

  #machine(): Machine {
    const error = this.#plan.clockErrorRatio
    // The extremes are where bounds break, so half of all clocks sit there.
    const off = this.#random.chance(0.5) ? this.#random.pick([-error, error]) : this.#random.between(-error, error)
    return new Machine(this.#world, this.#random.fork(), 1 + off)
  }

  #openCas(backend: CompareAndSwap): (link: Link | undefined, clock: Clock) => LeaseStore {
    const { watch } = backend
    const watched: CompareAndSwap = {
      get: (election, call) => backend.get(election, call),
      putIfVersion: this.#watchPuts((...args) => backend.putIfVersion(...args)),
      ...(watch && { watch: (election, call) => watch.call(backend, election, call) }),
    }
    return (link, clock) => casStore(link ? linkKv(link, watched) : watched, { clock })
  }

  #watchGrants(store: LeaseStore): LeaseStore {
    return {
      ...store,
      acquire: async (claim, call) => {
        const outcome = await store.acquire(claim, call)
        if (outcome.ok) this.#checker.granted(outcome.record, this.candidates)
        return outcome
      },
      release: async (claim, call) => {
        const outcome = await store.release(claim, call)
        if (outcome.ok) this.#checker.released(outcome.record, this.candidates)
        return outcome
      },
    }
  }

  #watchPuts(put: CompareAndSwap['putIfVersion']): typeof put {
    return async (election, value, version, call) => {
      const written = await put(election, value, version, call)
      if (typeof written !== 'string') return written
      const record: LeaseRecord = { ...decodeRecord(value), version: written }
      if (record.released) this.#checker.released(record, this.candidates)
      else this.#checker.granted(record, this.candidates)
      return written
    }
  }
}
