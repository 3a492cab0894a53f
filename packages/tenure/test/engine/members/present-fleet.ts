import { ok } from 'node:assert/strict'
import { fakeClock } from '../../../../testing/src/index.ts'
import type {
  CallOptions,
  Clock,
  CompareAndSwap,
  ElectionEvent,
  Elector,
  ElectorOptions,
  LeaseStore,
  VersionedValue,
} from '../../../src/index.ts'
import { stallable, type StallableClock } from '../../stallable-clock.ts'

/** The library, or a mutant of it. */
export type Library = typeof import('../../../src/index.ts')

export const group = 'payments'
export const leaseMs = 15_000

/** The stores of the fleets: one decides expiry by its own clock, on the other one the candidates observe it. */
export const storeKinds = ['memory', 'compare-and-swap'] as const
export type StoreKind = (typeof storeKinds)[number]

/** One call to the store, as it was sent. */
export interface SentCall {
  readonly verb: 'read' | 'acquire' | 'renew' | 'release'
  readonly election: string
  readonly atMs: number
  outcome: 'pending' | 'ok' | 'refused' | 'failed'
}

/** A process with its own clock and its own connection. */
export interface PresentProcess {
  readonly identity: string
  readonly clock: StallableClock
  readonly elector: Elector
  readonly events: ElectionEvent[]
  readonly calls: SentCall[]
  /** The largest number of calls that were in flight at the same time. */
  mostOpen: number
  /** While true, no call is answered. */
  isCut: boolean
  /** How long a message to or from the store takes. */
  latencyMs: () => number
  /** Which calls fail at once. */
  fails: (call: SentCall) => boolean
  hasCrashed: boolean
}

/**
 * Processes of one group in virtual time. Each advance checks that no two of them believe that they hold the same seat.
 */
export class PresentFleet {
  readonly clock = fakeClock()
  readonly library: Library
  readonly store: LeaseStore
  readonly processes: PresentProcess[] = []
  /** The elections whose records cannot be read. */
  readonly invalid = new Set<string>()
  readonly #options: Partial<ElectorOptions>
  /** Opens one more handle to the same data. */
  readonly #open: () => LeaseStore
  #started = 0

  constructor(library: Library, kind: StoreKind, options: Partial<ElectorOptions> = {}) {
    this.library = library
    this.#options = options
    const open = kind === 'memory' ? memory(library, this.clock) : keyValues(library, this.clock)
    this.#open = () => withInvalid(library, open(), this.invalid)
    this.store = this.#open()
  }

  /** Starts a process. The caller advances the clock. */
  start(options: Partial<ElectorOptions> = {}): PresentProcess {
    const clock = stallable(this.clock)
    const events: ElectionEvent[] = []
    const identity = options.identity ?? `node-${this.#started++}`
    const process: Omit<PresentProcess, 'elector'> = {
      identity,
      clock,
      events,
      calls: [],
      mostOpen: 0,
      isCut: false,
      latencyMs: () => 0,
      fails: () => false,
      hasCrashed: false,
    }
    const elector = new this.library.Elector({
      store: connect(this.#open(), process, this.clock),
      election: group,
      present: true,
      clock,
      observer: { onEvent: (event) => void events.push(event) },
      ...this.#options,
      ...options,
      identity,
    })
    const started = Object.assign(process, { elector })
    this.processes.push(started)
    elector.start()
    return started
  }

  /** Ends a process without letting it clean up. */
  crash(process: PresentProcess): void {
    process.isCut = true
    process.hasCrashed = true
    process.clock.stall()
  }

  async advance(ms: number, stepMs = 250): Promise<void> {
    for (let leftMs = ms; leftMs > 0; leftMs -= stepMs) {
      await this.clock.advance(Math.min(stepMs, leftMs))
      this.checkSeats()
    }
  }

  /** Stops a process and waits for it. */
  async stop(process: PresentProcess): Promise<void> {
    await this.#settle(process.elector.stop(), `the stop of ${process.identity}`)
    this.processes.splice(this.processes.indexOf(process), 1)
  }

  /** The seat of each process, by identity. Only processes that hold one. */
  seats(): Record<string, number> {
    const seated = this.processes.flatMap(({ identity, elector, hasCrashed }) => {
      const { seat } = elector.explain()
      return seat === undefined || hasCrashed ? [] : [[identity, seat] as const]
    })
    return Object.fromEntries(seated)
  }

  /** Lists the members, and advances the clock for as long as that takes. */
  async members(observeMs = 0) {
    const { store, clock, library } = this
    return this.#settle(library.members(store, group, { clock, observeMs }), 'members()')
  }

  /** Advances the clock until a promise settles. */
  async #settle<T>(promise: Promise<T>, what: string): Promise<T> {
    const progress = { isSettled: false }
    const settled = promise.finally(() => (progress.isSettled = true))
    await this.clock.advance(0)
    for (let waitedMs = 0; !progress.isSettled; waitedMs += 250) {
      ok(waitedMs < 60_000, `${what} takes longer than a minute`)
      await this.advance(250)
    }
    return settled
  }

  checkSeats(): void {
    const holders = new Map<number, string>()
    for (const [identity, seat] of Object.entries(this.seats())) {
      const other = holders.get(seat)
      ok(other === undefined, `at ${this.clock.monotonicMs()} ms, ${other} and ${identity} both hold seat ${seat}`)
      holders.set(seat, identity)
    }
  }

  async stopAll(): Promise<void> {
    for (const process of this.processes.filter(({ hasCrashed }) => !hasCrashed)) await this.stop(process)
  }
}

function memory(library: Library, clock: Clock): () => LeaseStore {
  const store = library.memoryStore({ clock })
  return () => store
}

/** A store that returns foreign data in place of some records. */
function withInvalid(library: Library, store: LeaseStore, invalid: ReadonlySet<string>): LeaseStore {
  const check = (election: string) => {
    if (invalid.has(election))
      throw new library.TenureError('RECORD_INVALID', `"${election}" has no record of a lease.`)
  }
  const { look } = store
  return {
    ...store,
    read: async (election, call) => (check(election), store.read(election, call)),
    acquire: async (claim, call) => (check(claim.election), store.acquire(claim, call)),
    renew: async (claim, call) => (check(claim.election), store.renew(claim, call)),
    release: async (claim, call) => (check(claim.election), store.release(claim, call)),
    ...(look && {
      look: async (election: string, call: CallOptions) => (check(election), look.call(store, election, call)),
    }),
  }
}

/** A key-value server without a clock: candidates observe expiry. */
function keyValues(library: Library, clock: Clock): () => LeaseStore {
  const values = new Map<string, VersionedValue>()
  let writes = 0
  const backend: CompareAndSwap = {
    get: async (election) => values.get(election),
    async putIfVersion(election, value, version) {
      if (values.get(election)?.version !== version) return undefined
      const next = String(++writes)
      values.set(election, { value, version: next })
      return next
    },
  }
  return () => library.casStore(backend, { clock })
}

/** The connection of one process to the store. */
function connect(store: LeaseStore, process: Omit<PresentProcess, 'elector'>, network: Clock): LeaseStore {
  let open = 0
  /** Delivers a message, which also happens while the process is stalled. A message on a cut connection is lost. */
  const deliver = async (signal: AbortSignal): Promise<void> => {
    const ms = process.latencyMs()
    if (ms > 0) await new Promise<void>((resolve) => network.setTimer(ms, resolve))
    if (!process.isCut) return
    await new Promise((_, reject) => {
      if (signal.aborted) reject(signal.reason)
      signal.addEventListener('abort', () => reject(signal.reason), { once: true })
    })
  }
  const send = async <T>(
    verb: SentCall['verb'],
    election: string,
    { signal }: CallOptions,
    transmit: () => Promise<T>,
  ): Promise<T> => {
    const sent: SentCall = { verb, election, atMs: process.clock.monotonicMs(), outcome: 'pending' }
    process.calls.push(sent)
    process.mostOpen = Math.max(process.mostOpen, ++open)
    try {
      if (process.fails(sent)) throw new Error('permission denied')
      await deliver(signal)
      const answer = await transmit()
      const isRefused = typeof answer === 'object' && answer !== null && 'ok' in answer && answer.ok === false
      await deliver(signal)
      sent.outcome = isRefused ? 'refused' : 'ok'
      return answer
    } catch (error) {
      sent.outcome = 'failed'
      throw error
    } finally {
      open -= 1
    }
  }
  const { look } = store
  return {
    expiry: store.expiry,
    terms: store.terms,
    read: (election, call) => send('read', election, call, () => store.read(election, call)),
    acquire: (claim, call) => send('acquire', claim.election, call, () => store.acquire(claim, call)),
    renew: (claim, call) => send('renew', claim.election, call, () => store.renew(claim, call)),
    release: (claim, call) => send('release', claim.election, call, () => store.release(claim, call)),
    ...(look && {
      look: (election: string, call: CallOptions) =>
        send('read', election, call, () => look.call(store, election, call)),
    }),
  }
}
