/**
 * The code that users write, one function for each API style, with exactly the documented names. It imports the built
 * package by name, so it compiles only while those names keep their types.
 */
import { randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import {
  casStore,
  createElections,
  Elector,
  isTenureError,
  lead,
  LeadershipLostError,
  Manager,
  memoryStore,
  observe,
  withLock,
  TenureError,
  ttlStore,
  type AcquireClaim,
  type CallOptions,
  type Clock,
  type HeldClaim,
  type LeaseRecord,
  type LeaseStore,
  type ListOptions,
  type ListPage,
  type Outcome,
  type TtlStorage,
} from 'tenure'
import { storeConformance } from '@tenure/testing/conformance'
import { createJobs } from 'tenure/jobs'
import { inCluster, LeaderElector } from 'tenure/kubernetes'
import {
  decodeRecord,
  encodeRecord,
  granted,
  buildStore,
  type Current,
  type StoreBackend,
  type Verdict,
} from 'tenure/store-kit'
import { memoryTtlStorage, openStore } from 'tenure/stores'
import { fileStore } from 'tenure/stores/file'
import { kubernetesStore } from 'tenure/stores/kubernetes'
import { multiclusterStore } from 'tenure/stores/multicluster'
import { fakeClock, fakeLeadership } from '@tenure/testing'

type EventType = 'elected' | 'renewed' | 'renew-failed' | 'lost' | 'new-leader' | 'eligibility' | 'error' | 'gap'

export async function leadBlock(directory: string): Promise<number[]> {
  const reports: number[] = []
  const report = async ({ signal, fence }: { signal: AbortSignal; fence: number }) => {
    signal.throwIfAborted()
    reports.push(fence)
  }
  await lead({ store: fileStore({ directory }), election: 'nightly-report' }, async (leadership) => {
    await report({ signal: leadership.signal, fence: leadership.term })
  })
  return reports
}

export async function electorBlock(): Promise<{ said: string[]; events: string[] }> {
  const clock = fakeClock()
  const store = memoryStore({ clock })
  const observer = { onEvent: () => {}, onCall: () => {} }
  const { signal } = new AbortController()
  const said: string[] = []
  const events: string[] = []

  const elector = new Elector({
    store,
    election: 'payments',
    identity: 'node-17',
    leaseDurationMs: 15_000,
    renewIntervalMs: 5_000,
    renewDeadlineMs: 10_000,
    retryIntervalMs: 2_000,
    driftRatio: 0.01,
    metadata: { zone: 'az-a' },
    releaseOnStop: true,
    drainTimeoutMs: 30_000,
    clock,
    observer,
  })
  const reading = (async () => {
    for await (const event of elector.events({ signal })) {
      const known: EventType = event.type
      events.push(known)
    }
  })()
  elector.start({ signal })
  elector.isLeader() satisfies boolean
  elector.leader() satisfies LeaseRecord | undefined
  const leadership = await elector.waitForLeadership({ signal })
  said.push(`term ${leadership.term}`)
  leadership.signal satisfies AbortSignal
  leadership.isLeader() satisfies boolean
  leadership.throwIfLost()
  leadership.waitUntil(Promise.resolve())
  leadership.checkpoint satisfies string
  await leadership.setCheckpoint('last run 2026-11-15')
  said.push(leadership.checkpoint, `${leadership.remainingMs()}`, `${leadership.drainMs() > leadership.remainingMs()}`)
  elector.explain().summary satisfies string
  await elector.stepDown({ cooldownMs: 15_000 })
  const reason: unknown = leadership.signal.reason
  if (!(reason instanceof LeadershipLostError)) throw new Error('the reason is not a LeadershipLostError')
  said.push(`${reason.reason} ${reason.term} ${reason.election} ${reason.code}`)
  await elector.stop()
  await elector[Symbol.asyncDispose]()
  await reading
  return { said, events }
}

export async function preferenceBlock(): Promise<string[]> {
  const store = memoryStore()
  const isHealthy = true
  const common = {
    store,
    election: 'payments',
    leaseDurationMs: 3_000,
    eligible: () => isHealthy,
    ineligibleForMs: 4_000,
    priority: 'normal' as const,
    progressTimeoutMs: 60_000,
  }
  const elector = new Elector({ ...common, identity: 'node-17' })
  elector.start()
  const leadership = await elector.waitForLeadership()
  leadership.progress()
  const successor = new Manager({ ...common, identity: 'node-3', priority: () => 'lowest' })
  const lease = successor.start()
  const { heldBackBy, isEligible, priority } = elector.explain()
  await elector.stepDown({ to: 'node-3' })
  const { term } = await lease.waitForLeadership()
  const { reason } = leadership.signal.reason as LeadershipLostError
  await successor.stepDown({ cooldownMs: 0 })
  await elector.stop()
  await successor.stop()
  return [String(heldBackBy), String(isEligible), priority, reason, `term ${term}`]
}

export async function managerAndLease(): Promise<string[]> {
  const store = memoryStore()
  const { signal } = new AbortController()
  const errors: unknown[] = []
  const manager = new Manager({
    store,
    election: 'jobs',
    identity: process.env['POD_NAME'],
    leaseDurationMs: 15_000,
    renewIntervalMs: 5_000,
    retryIntervalMs: 2_000,
    maxFailedRenewals: 3,
  })
  const lease = manager.start({ signal })
  const before = lease.isLeader()
  const leadership = await lease.waitForLeadership({ signal })
  manager.onError = (error) => void errors.push(error)
  const during = lease.isLeader()
  const ran = await lease.run(async (current) => void (current.term satisfies number))
  await manager.stop()
  const late = await lease.run(async () => {})
  return [
    `${before} ${during} ${lease.isLeader()}`,
    `term ${leadership.term}`,
    `${errors.length} errors`,
    `${ran} ${late}`,
  ]
}

export async function keyedElections(): Promise<string[]> {
  const clock = fakeClock()
  const host = hostname()
  const storage: TtlStorage<string, string> = memoryTtlStorage({ clock })
  const elections = createElections<string, string>({ storage, clock })
  const held = await elections.acquireLeadership('key', `${host}:${randomUUID()}`, { durationMs: 5_000 })
  held satisfies AbortSignal | undefined
  const other = await elections.acquireLeadership('key', `${host}:${randomUUID()}`, { durationMs: 5_000 })
  await elections.releaseLeadership('key')
  await elections.close()
  return [`held ${held !== undefined}`, `other ${other !== undefined}`, `aborted ${held?.aborted}`]
}

export async function callbacks(): Promise<string[]> {
  const told: string[] = []
  const stopping = new AbortController()
  const { signal } = stopping
  const le = new LeaderElector({
    store: memoryStore(),
    leaseName: 'my-app',
    leaseNamespace: 'default',
    identity: process.env['POD_NAME'] ?? 'pod-0',
    leaseDurationMs: 15_000,
    renewDeadlineMs: 10_000,
    retryPeriodMs: 2_000,
    releaseOnCancel: true,
    callbacks: {
      onStartedLeading(signal, leadership) {
        told.push(`started ${leadership.term} ${signal.aborted} ${le.isLeader()} ${le.getLeader() !== ''}`)
        stopping.abort()
      },
      onStoppedLeading() {
        told.push('stopped')
      },
      onNewLeader(identity) {
        told.push(`leader ${identity !== ''}`)
      },
    },
  })
  await le.run({ signal })
  told.push(`${le.isLeader()} "${le.getLeader()}"`)
  return told
}

/** Runs only in a pod. */
export function onKubernetes(): [LeaderElector, LeaseStore, LeaseStore, LeaseStore] {
  const le = new LeaderElector({
    client: inCluster(),
    leaseName: 'my-app',
    leaseNamespace: 'default',
    identity: process.env['POD_NAME'],
    callbacks: { onStartedLeading() {}, onStoppedLeading() {}, onNewLeader() {} },
  })
  const across = multiclusterStore({ client: inCluster(), namespace: 'reports' })
  return [le, kubernetesStore(), kubernetesStore({ client: inCluster(), namespace: 'jobs' }), across]
}

export async function jobsOncePerFleet(): Promise<unknown[]> {
  const store = memoryStore()
  const { signal } = new AbortController()
  const said: string[] = []
  const [sync, migrate, job] = ['sync', 'migrate', 'job'].map((name) => async () => void said.push(name))
  if (!sync || !migrate || !job) throw new Error('a job handle is missing')
  const jobs = createJobs({ store, signal })
  const options = {
    name: 'nightly-report',
    timezone: 'Europe/Zurich',
    missed: 'skip',
    maxRuntimeMs: 3_600_000,
  } as const
  jobs.every('0 3 * * *', options, async ({ scheduledAt, term, signal: aborts }) => {
    scheduledAt satisfies Date
    term satisfies number
    aborts satisfies AbortSignal
  })
  jobs.every({ minutes: 5 }, { name: 'sync' }, sync)
  const once: 'ran' | 'already-done' = await jobs.once('migrate-v42', migrate)
  const again = await jobs.once('migrate-v42', migrate)
  const sparse: 'ran' | 'skipped' = await jobs.atMostOncePer({ hours: 1 }, 'hourly', job)
  const tried: 'ran' | 'busy' = await jobs.tryRun('import', job)
  const status = await jobs.status()
  await jobs.close()
  // The clock may have reached one of its scheduled times.
  const called = said.filter((name) => name !== 'sync')
  return [once, again, sparse, tried, called, status.map(({ name }) => name)]
}

export async function lockBlock(): Promise<string[]> {
  const store = memoryStore()
  const { signal } = new AbortController()
  const said = await withLock(
    store,
    'import',
    async ({ term, signal: aborts }) => {
      aborts satisfies AbortSignal
      const busy = await withLock(store, 'import', () => 'twice', { waitMs: 0 }).catch((error) => error.code)
      return [`term ${term}`, busy]
    },
    { waitMs: 30_000, signal },
  )
  return said
}

export async function observeBlock(): Promise<string[]> {
  const store = memoryStore()
  const said: string[] = []
  const controller = new AbortController()
  const { signal } = controller
  const working = lead({ store, election: 'payments' }, () => new Promise((resolve) => setTimeout(resolve, 20)))
  for await (const { record, change } of observe(store, 'payments', { signal })) {
    said.push(change)
    if (record?.released) controller.abort()
  }
  await working
  const page = await store.list?.({ limit: 10 }, { signal: new AbortController().signal })
  return [...said, ...(page?.records.map(({ election, term }) => `${election} ${term}`) ?? [])]
}

/** A store that implements every member by forwarding to another store. */
export function forwardingStore(inner: LeaseStore): LeaseStore {
  return {
    expiry: inner.expiry satisfies 'own-clock' | 'observed',
    terms: inner.terms satisfies boolean,
    read: (election: string, options: CallOptions): Promise<LeaseRecord | undefined> => inner.read(election, options),
    acquire: (claim: AcquireClaim, options: CallOptions): Promise<Outcome> => inner.acquire(claim, options),
    renew: (claim: HeldClaim, options: CallOptions): Promise<Outcome> => inner.renew(claim, options),
    release: (claim: HeldClaim, options: CallOptions): Promise<Outcome> => inner.release(claim, options),
    watch: (election: string, options: CallOptions): AsyncIterable<LeaseRecord | undefined> =>
      inner.watch?.(election, options) ?? (async function* () {})(),
    list: async (page: ListOptions, options: CallOptions): Promise<ListPage> =>
      inner.list?.(page, options) ?? { records: [] },
    close: async (): Promise<void> => inner.close?.(),
  }
}

export function claimsAndOutcomes(): [AcquireClaim, HeldClaim, Outcome[]] {
  const acquire: Required<AcquireClaim> = {
    election: 'e',
    holder: 'me',
    attempt: 'a',
    leaseDurationMs: 15_000,
    afterTerm: 0,
    expiredVersion: '1',
    metadata: {},
    writeId: 'm1',
  }
  const held: Required<HeldClaim> = {
    election: 'e',
    holder: 'me',
    attempt: 'a',
    term: 1,
    version: '1',
    leaseDurationMs: 15_000,
    checkpoint: '',
    successor: 'node-3',
    writeId: 'm2',
  }
  const record: LeaseRecord = {
    election: 'e',
    holder: 'me',
    attempt: 'a',
    term: 1,
    leaseDurationMs: 15_000,
    acquiredAt: 0,
    renewedAt: 0,
    released: false,
    metadata: {},
    checkpoint: '',
    version: '1',
  }
  const outcomes: Outcome[] = [
    { ok: true, record, validForMs: 15_000 },
    { ok: false, highestTerm: 1 },
    { ok: false, record, highestTerm: 1, retryAfterMs: 5_000 },
  ]
  return [acquire, held, outcomes]
}

export function otherStores(): LeaseStore[] {
  const values = new Map<string, { value: string; version: string }>()
  const cas = casStore({
    get: async (election) => values.get(election),
    async putIfVersion(election, value, version) {
      if (values.get(election)?.version !== version) return undefined
      const next = String(Number(version ?? 0) + 1)
      values.set(election, { value, version: next })
      return next
    },
  })
  return [cas, ttlStore(memoryTtlStorage())]
}

export async function conformance(): Promise<number> {
  let passed = 0
  const makeStore = () => {
    const clock = fakeClock()
    return { store: memoryStore({ clock }), pass: (ms: number) => clock.advance(ms) }
  }
  const test = async (name: string, run: () => Promise<void>) => {
    await run()
    passed += name.length > 0 ? 1 : 0
  }
  for (const { name, run } of storeConformance(makeStore)) await test(name, run)
  return passed
}

/** A store as a user would write it, from the same parts as the library's own stores. */
export function storeOfAnAuthor(clock: Clock): LeaseStore {
  const texts = new Map<string, { readonly text: string; readonly version: string }>()
  const currentOf = (election: string): Current => {
    const found = texts.get(election)
    const record = found && { ...decodeRecord(found.text), version: found.version }
    return { record, highestTerm: record?.term ?? 0, remainingMs: undefined }
  }
  const place: StoreBackend = {
    expiry: 'observed',
    find: async (election) => currentOf(election),
    change: async (claim, _call, judge) => {
      const verdict: Verdict = judge(currentOf(claim.election))
      if ('answer' in verdict) return verdict.answer
      const version = clock.randomId()
      texts.set(claim.election, { text: encodeRecord(verdict.write, () => version), version })
      return granted({ ...verdict.write, version }, claim)
    },
  }
  return buildStore(place, clock)
}

export async function conformanceOfAnAuthor(): Promise<string[]> {
  const names: string[] = []
  const makeStore = () => {
    const clock = fakeClock()
    return { store: storeOfAnAuthor(clock), pass: (ms: number) => clock.advance(ms) }
  }
  for (const { name, run } of storeConformance(makeStore)) {
    await run()
    names.push(name)
  }
  return names
}

export async function storesAndTesting(directory: string): Promise<string[]> {
  const store: LeaseStore = await openStore('memory:')
  const single = fileStore({ path: `${directory}/one.json` })
  const clock = fakeClock()
  await clock.advance(5_000)
  const leadership = fakeLeadership({ term: 7 })
  leadership.lose()
  const error: unknown = leadership.signal.reason
  const known = isTenureError(error) && error instanceof TenureError
  return [store.expiry, single.expiry, `${clock.monotonicMs()}`, known ? `${error.code} ${error.retryable}` : 'unknown']
}
