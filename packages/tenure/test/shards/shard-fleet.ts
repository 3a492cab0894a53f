import { deepStrictEqual, ok } from 'node:assert/strict'
import { fakeClock } from '../../../testing/src/index.ts'
import {
  casStore,
  memoryStore,
  type CallOptions,
  type Clock,
  type CompareAndSwap,
  type HeldClaim,
  type LeaseStore,
} from '../../src/index.ts'
import {
  createShards,
  type HoldContext,
  type ShardChange,
  type ShardContext,
  type Shards,
  type ShardsOptions,
} from '../../src/shards/index.ts'
import { shardOf } from '../../src/shards/hash.ts'
import { stallable, type StallableClock } from '../stallable-clock.ts'

export const group = 'sessions'
export const leaseMs = 15_000
const retryMs = 2_000

/**
 * The stores of the fleets. `memory` decides expiry by its own clock, can be watched, and keeps terms. On `swap` the
 * processes observe expiry, poll, and a deleted record takes its term with it.
 */
export const storeKinds = ['memory', 'swap'] as const
export type StoreKind = (typeof storeKinds)[number]

/** The fate of one call: its delays, and whether its request or its reply is lost. */
export interface CallFate {
  readonly toMs?: number
  readonly fromMs?: number
  readonly lost?: 'request' | 'reply'
  readonly error?: boolean
}

/** A process with its own clock and its own connection. */
export interface ShardProcess {
  readonly identity: string
  readonly clock: StallableClock
  readonly shards: Shards
  readonly changes: ShardChange[]
  /** The work that has begun and has not settled, with its signal. */
  readonly working: Map<number, ShardContext>
  readonly started: Promise<unknown>
  /** The holds on keys that have begun and have not settled. */
  readonly holding: Set<HoldContext>
  /** Work settles this long after its signal has aborted. */
  settleMs: number
  /** If set, the work on each shard begins with a hold on one of its keys, which settles this long after its abort. */
  holdMs: number | undefined
  isCut: boolean
  fateOf: (verb: string, election: string) => CallFate
  hasCrashed: boolean
  isStalled: boolean
  hasStopped: boolean
}

interface Ownership {
  readonly identity: string
  readonly token: number
}

/** Processes that share shards in virtual time. Each advance checks S1 and S2. */
export class ShardFleet {
  readonly clock = fakeClock()
  readonly processes: ShardProcess[] = []
  readonly log: string[] = []
  readonly writes = { count: 0 }
  readonly reads = { count: 0 }
  readonly #shards: number
  readonly #options: Partial<ShardsOptions>
  readonly #store: { readonly inner: LeaseStore; delete(election: string): void }
  /** The newest ownership of each shard, and the highest token that was ever owned. */
  readonly #owners = new Map<number, Ownership>()
  readonly #tokens = new Map<number, number>()
  readonly #faulty: string[] = []

  constructor(kind: StoreKind, shards: number, options: Partial<ShardsOptions> = {}) {
    this.#shards = shards
    this.#options = options
    this.#store = kind === 'memory' ? memory(this.clock) : swap(this.clock)
  }

  join(identity: string, options: Partial<ShardsOptions> = {}): ShardProcess {
    const clock = stallable(this.clock)
    const changes: ShardChange[] = []
    const working = new Map<number, ShardContext>()
    const shards = createShards({
      store: this.#link(() => process, clock),
      group,
      shards: this.#shards,
      identity,
      metadata: { address: `http://${identity}` },
      leaseDurationMs: leaseMs,
      clock,
      log: {
        info: () => undefined,
        warn: (text) => void this.log.push(`${identity} warn ${text}`),
        error: (text) => void this.log.push(`${identity} error ${text}`),
      },
      observer: { onShard: (change) => void changes.push(change) },
      work: (context) => this.#work(process, context),
      ...this.#options,
      ...options,
    })
    const process: ShardProcess = {
      identity,
      clock,
      shards,
      changes,
      working,
      holding: new Set(),
      started: shards.start().catch((error: unknown) => error),
      settleMs: 0,
      holdMs: undefined,
      isCut: false,
      fateOf: () => ({}),
      hasCrashed: false,
      isStalled: false,
      hasStopped: false,
    }
    this.processes.push(process)
    return process
  }

  /** Ends a process as a crash does: it runs no code from now on, and none of its calls reaches the store. */
  crash(process: ShardProcess): void {
    process.hasCrashed = true
    process.isCut = true
    process.clock.stall()
  }

  stall(process: ShardProcess): void {
    process.isStalled = true
    process.clock.stall()
  }

  resume(process: ShardProcess): void {
    process.isStalled = false
    process.clock.resume()
  }

  delete(election: string): void {
    this.#store.delete(election)
  }

  /** The store, for clients outside this fleet. */
  get store(): LeaseStore {
    return this.#store.inner
  }

  read(election: string) {
    return this.#store.inner.read(election, { signal: new AbortController().signal })
  }

  /** Stops a process, and advances the clock until it has left. */
  async leave(process: ShardProcess): Promise<void> {
    void process.shards.stop().then(() => (process.hasStopped = true))
    await this.until(() => process.hasStopped, 10 * leaseMs)
  }

  async advance(ms: number): Promise<void> {
    const untilMs = this.clock.monotonicMs() + ms
    while (this.clock.monotonicMs() < untilMs) {
      await this.clock.advance(Math.min(100, untilMs - this.clock.monotonicMs()))
      this.check()
    }
  }

  /** Advances until the condition holds. Returns how long that took. Fails after `withinMs`. */
  async until(condition: () => boolean, withinMs: number): Promise<number> {
    const sinceMs = this.clock.monotonicMs()
    while (!condition()) {
      ok(this.clock.monotonicMs() - sinceMs < withinMs, `not reached within ${withinMs} ms: ${this.describe()}`)
      await this.advance(100)
    }
    return this.clock.monotonicMs() - sinceMs
  }

  get live(): ShardProcess[] {
    return this.processes.filter(({ hasCrashed, hasStopped }) => !hasCrashed && !hasStopped)
  }

  loads(): number[] {
    return this.live.map(({ shards }) => shards.status().owned.length)
  }

  /** Whether every shard is owned, and loads differ by at most one (S4). */
  isSettled(): boolean {
    const loads = this.loads()
    const owned = loads.reduce((sum, load) => sum + load, 0)
    return owned === this.#shards && Math.max(...loads) - Math.min(...loads) <= 1
  }

  describe(): string {
    return JSON.stringify(
      this.processes.map(({ identity, shards, hasCrashed, hasStopped }) => ({
        identity,
        hasCrashed,
        hasStopped,
        status: shards.status(),
      })),
    )
  }

  /**
   * S1 and S2: no shard has two owners at a moment, and a new owner has a higher token than every earlier one. And no
   * seat was released too early.
   */
  check(): void {
    deepStrictEqual(this.#faulty, [])
    const nowMs = this.clock.monotonicMs()
    // A stalled process runs nothing. What it would answer now, it answers when it runs again.
    const running = this.processes.filter(({ hasCrashed, isStalled }) => !hasCrashed && !isStalled)
    const owned = running.flatMap(({ identity, shards }) =>
      shards.status().owned.map(({ shard, token }) => ({ identity, shard, token })),
    )
    for (const shard of new Set(owned.map((one) => one.shard))) {
      const owners = owned.filter((one) => one.shard === shard)
      ok(owners.length <= 1, `S1 at ${nowMs} ms: shard ${shard} has two owners: ${JSON.stringify(owners)}`)
      const [owner] = owners
      if (!owner) continue
      const before = this.#owners.get(shard)
      if (before?.identity === owner.identity && before.token === owner.token) continue
      const highest = this.#tokens.get(shard) ?? 0
      ok(owner.token > highest, `S2 at ${nowMs} ms: shard ${shard} has token ${owner.token} after ${highest}`)
      this.#tokens.set(shard, owner.token)
      this.#owners.set(shard, owner)
    }
    this.#checkWork(nowMs)
  }

  /** Work of a process that has its seat never runs beside other such work on the same shard, even if its signal has aborted. */
  #checkWork(nowMs: number): void {
    const active = new Map<number, string>()
    for (const { identity, shards, working, holding, hasCrashed, isStalled } of this.processes) {
      if (hasCrashed || isStalled) continue
      const isSeated = shards.status().seat !== undefined
      const busy = new Map([...holding, ...working.values()].map((context) => [context.shard, context]))
      for (const [shard, { signal }] of busy) {
        // With a seat, its work keeps the shard until it settles. Without one, work that ignores its signal keeps running alone.
        if (signal.aborted && !isSeated) continue
        deepStrictEqual(active.get(shard), undefined, `work of two processes on shard ${shard} at ${nowMs} ms`)
        active.set(shard, identity)
      }
    }
  }

  async #work(process: ShardProcess, context: ShardContext): Promise<void> {
    const { shard, signal } = context
    ok(!process.working.has(shard), `${process.identity} works on shard ${shard} twice`)
    process.working.set(shard, context)
    if (process.holdMs !== undefined) void this.#hold(process, shard).catch(() => undefined)
    if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
    if (process.settleMs > 0) await new Promise<void>((resolve) => process.clock.setTimer(process.settleMs, resolve))
    process.working.delete(shard)
  }

  /** Rule 5: a seat is not released while work on a shard runs. A coordinator also releases seats that it has cleaned. */
  #noteRelease({ identity, working, holding }: ShardProcess, { election, attempt }: HeldClaim): void {
    const isOwnSeat = election !== group && !attempt.includes('/')
    const busy = working.size + holding.size
    if (isOwnSeat && busy > 0) this.#faulty.push(`${identity} releases ${election} while it works`)
  }

  async #hold(process: ShardProcess, shard: number): Promise<void> {
    const key = Array.from({ length: 100 }, (_, number) => `key-${number}`).find(
      (one) => shardOf(one, this.#shards) === shard,
    )
    await process.shards.hold(key ?? '', async (context) => {
      const { signal } = context
      process.holding.add(context)
      if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
      await new Promise<void>((resolve) => process.clock.setTimer(process.holdMs ?? 0, resolve))
      process.holding.delete(context)
    })
  }

  #link(of: () => ShardProcess, clock: Clock): LeaseStore {
    const { inner } = this.#store
    const call = async <T>(verb: string, election: string, { signal }: CallOptions, send: () => Promise<T>) => {
      await Promise.resolve()
      const process = of()
      const { toMs = 0, fromMs = 0, lost, error = false } = process.fateOf(verb, election)
      if (error) throw new Error('connect ECONNREFUSED')
      // The network has its own time: a request is delivered even if its sender stalls or gives up.
      if (toMs > 0) await new Promise<void>((resolve) => this.clock.setTimer(toMs, resolve))
      if (process.isCut || lost === 'request') return silence(signal)
      const calls = verb === 'read' ? this.reads : this.writes
      calls.count += 1
      const answer = await send()
      if (fromMs > 0) await new Promise<void>((resolve) => this.clock.setTimer(fromMs, resolve))
      // A stalled process takes the answer when it runs again.
      await new Promise<void>((resolve) => clock.setTimer(0, resolve))
      return process.isCut || lost === 'reply' ? silence(signal) : answer
    }
    const { watch } = inner
    return {
      expiry: inner.expiry,
      terms: true,
      ...(inner.keepsTerms !== undefined && { keepsTerms: inner.keepsTerms }),
      read: (election, options) => call('read', election, options, () => inner.read(election, options)),
      acquire: (claim, options) => call('acquire', claim.election, options, () => inner.acquire(claim, options)),
      renew: (claim, options) => call('renew', claim.election, options, () => inner.renew(claim, options)),
      release: (claim, options) => {
        this.#noteRelease(of(), claim)
        return call('release', claim.election, options, () => inner.release(claim, options))
      },
      ...(watch && {
        async *watch(election: string, options: CallOptions) {
          for await (const record of watch.call(inner, election, options)) {
            if (of().isCut) continue
            yield record
          }
        },
      }),
    }
  }
}

function memory(clock: Clock) {
  const inner = memoryStore({ clock })
  return { inner, delete: (election: string) => inner.delete(election) }
}

function swap(clock: Clock) {
  const values = new Map<string, { readonly value: string; readonly version: string }>()
  let writes = 0
  const backend: CompareAndSwap = {
    get: async (election) => values.get(election),
    async putIfVersion(election, value, version) {
      if (values.get(election)?.version !== version) return undefined
      writes += 1
      values.set(election, { value, version: String(writes) })
      return String(writes)
    },
  }
  return { inner: casStore(backend, { clock }), delete: (election: string) => void values.delete(election) }
}

async function silence(signal: AbortSignal): Promise<never> {
  if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
  throw signal.reason
}

/** The longest time from a loss to the next owner (S3): one lease, one read of the seats, and one write, plus calls. */
export const takeoverMs = leaseMs + 3 * retryMs
