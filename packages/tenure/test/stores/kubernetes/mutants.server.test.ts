import { deepEqual, equal, notEqual, ok } from 'node:assert/strict'
import { once } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { startClientGo } from '../../../../../test/servers/client-go.ts'
import type { ApiServer } from '../../../../../test/servers/cluster.ts'
import { programs } from '../../../../../test/servers/programs.ts'
import { describeWithCluster } from '../../../../../test/servers/suite.ts'
import { systemClock, type Clock } from '../../../src/common/clock.ts'
import { storeConformance } from '../../../../testing/src/conformance/index.ts'
import { held } from '../../../../testing/src/conformance/scene.ts'
import * as engine from '../../../src/engine/elector.ts'
import type { LeadershipLostError } from '../../../src/common/errors.ts'
import * as api from '../../../src/clients/kubernetes/client.ts'
import type { AcquireClaim, LeaseRecord, LeaseStore, Outcome } from '../../../src/engine/lease-store.ts'
import * as leases from '../../../src/stores/kubernetes/index.ts'
import { loadMutant } from '../../../../../test/mutants/mutant.ts'
import { passes } from '../../../../../test/mutants/passes-check.ts'
import { kubernetesMutations } from './mutants.ts'

/** The library or a mutant of it, and an API server. */
interface Library {
  readonly cluster: ApiServer
  readonly Elector: typeof engine.Elector
  open(clock?: Clock): LeaseStore
}

function libraryOf(
  cluster: ApiServer,
  { Elector }: typeof engine,
  { KubernetesClient }: typeof api,
  { kubernetesStore }: typeof leases,
): Library {
  const { url: server, ca, adminToken } = cluster
  const credentials = () => ({ authorization: `Bearer ${adminToken}`, tls: { ca } })
  return {
    cluster,
    Elector,
    open(clock) {
      const client = new KubernetesClient({ server, credentials })
      return kubernetesStore({ client, namespace: cluster.namespace, clock })
    },
  }
}

const { signal } = new AbortController()
let elections = 0

function claimOf(change: Partial<AcquireClaim> = {}): AcquireClaim {
  const attempt = `attempt-${++elections}`
  return { election: attempt, holder: 'pod-a', attempt, leaseDurationMs: 15_000, afterTerm: 0, metadata: {}, ...change }
}

function granted(outcome: Outcome): LeaseRecord {
  ok(outcome.ok)
  return outcome.record
}

/** Changes a Lease as another program would. */
async function patch({ cluster }: Library, election: string, spec: object): Promise<void> {
  const path = `/apis/coordination.k8s.io/v1/namespaces/${cluster.namespace}/leases/${election}`
  const { status } = await cluster.admin.request('PATCH', path, { spec })
  if (status !== 200) throw new Error(`the patch was answered with ${status}`)
}

/** Checks that supplement the conformance suite. Each one fails without waiting for a timeout. */
const checks: Record<string, (library: Library) => Promise<void>> = {
  async 'client-go leaves the lease to a healthy leader whose wall clock has stopped'({ cluster, Elector, open }) {
    const stopped = Date.now()
    const timings = { leaseDurationMs: 2_000, renewIntervalMs: 300, renewDeadlineMs: 1_800, retryIntervalMs: 300 }
    const store = open({ ...systemClock, wallMs: () => stopped })
    const { election: lease } = claimOf()
    const elector = new Elector({ store, election: lease, ...timings })
    onTestFinished(() => elector.stop())
    elector.start()
    const { signal: lost } = await elector.waitForLeadership()
    const { url: server, caFile, adminToken: token, namespace } = cluster
    const candidate = { server, caFile, token, namespace, lease, identity: 'client-go' }
    const peer = startClientGo({ ...candidate, leaseDurationMs: 3_000, renewDeadlineMs: 2_000, retryPeriodMs: 200 })
    onTestFinished(() => peer.stop())
    await peer.first('new-leader')
    await Promise.race([delay(timings.leaseDurationMs + 3_000), once(lost, 'abort')])
    // If client-go took over, the elector sees it in the Lease before the event of client-go arrives, so check the
    // reason as well.
    notEqual((lost.reason as LeadershipLostError | undefined)?.reason, 'superseded')
    deepEqual(
      peer.events.filter(({ event }) => event === 'started'),
      [],
    )
  },

  async 'the duration in a Lease is never shorter than its holder assumes'({ open }) {
    const claim = claimOf({ leaseDurationMs: 1_900 })
    const grant = await open().acquire(claim, { signal })
    const seen = await open().read(claim.election, { signal })
    ok(grant.ok && seen)
    ok(seen.leaseDurationMs >= grant.validForMs)
    equal(grant.validForMs, 1_900)
  },

  async 'a takeover is refused when the record was renewed after it was read'({ open }) {
    const claim = claimOf()
    const standby = open()
    const record = granted(await open().acquire(claim, { signal }))
    await standby.read(claim.election, { signal })
    const renewed = granted(await open().renew(held(record), { signal }))
    const late = { ...claim, attempt: 'late', afterTerm: 1, expiredVersion: record.version }
    equal((await standby.acquire(late, { signal })).ok, false)
    equal((await open().read(claim.election, { signal }))?.version, renewed.version)
  },

  async 'a Lease that another program took belongs to that program, despite the old annotations'(library) {
    const claim = claimOf()
    const store = library.open()
    granted(await store.acquire(claim, { signal }))
    await patch(library, claim.election, { holderIdentity: 'client-go', leaseTransitions: 2 })
    const { holder, attempt } = (await store.read(claim.election, { signal })) ?? {}
    deepEqual({ holder, attempt }, { holder: 'client-go', attempt: '' })
  },

  async 'a Lease that another program wiped is not free before it expires'(library) {
    const { fresh, wiped } = await wipe(library)
    equal((await library.open().acquire({ ...fresh, afterTerm: 6 }, { signal })).ok, false)
    const waited = { ...fresh, afterTerm: 6, expiredVersion: wiped.version }
    equal(granted(await library.open().acquire(waited, { signal })).term, 7)
  },

  async 'a term is not granted again after another program lowered it'(library) {
    const { fresh, wiped } = await wipe(library)
    const waited = { ...fresh, afterTerm: 5, expiredVersion: wiped.version }
    equal((await library.open().acquire(waited, { signal })).ok, false)
  },

  async 'a Lease whose name has a part of 100 characters keeps its name'({ cluster, open }) {
    const claim = claimOf()
    const election = claim.election.padEnd(100, 'x')
    granted(await open().acquire({ ...claim, election }, { signal }))
    const path = `/apis/coordination.k8s.io/v1/namespaces/${cluster.namespace}/leases/${election}`
    equal((await cluster.admin.request('GET', path)).status, 200)
  },
}

/** Changes a grant of term 6 in the same way as a late release of client-go changes that of a successor. */
async function wipe(library: Library): Promise<{ fresh: AcquireClaim; wiped: LeaseRecord }> {
  const claim = claimOf({ afterTerm: 5, expiredVersion: '' })
  const store = library.open()
  equal(granted(await store.acquire(claim, { signal })).term, 6)
  await patch(library, claim.election, { holderIdentity: '', leaseTransitions: 5, leaseDurationSeconds: 1 })
  const wiped = await store.read(claim.election, { signal })
  ok(wiped)
  return { fresh: { ...claim, attempt: 'fresh' }, wiped }
}

function find(name: string, { open, ...library }: Library): () => Promise<void> {
  const cases = storeConformance(() => ({ store: open(), open, forgetsTerms: true, lastTerm: 2 ** 31 - 1 }), {
    leaseDurationMs: 1_000,
  })
  const run = cases.find((one) => one.name === name)?.run
  const check = checks[name]
  if (check) return () => check({ open, ...library })
  if (!run) throw new Error(`There is no check "${name}".`)
  return run
}

describeWithCluster(
  'mutants of kubernetesStore',
  (cluster) => {
    test.for(kubernetesMutations)('the checks catch the mutant: $name', async (mutation) => {
      const mutant = await loadMutant<{ engine: typeof engine; api: typeof api; leases: typeof leases }>(mutation, {
        engine: 'engine/elector.ts',
        api: 'clients/kubernetes/client.ts',
        leases: 'stores/kubernetes/index.ts',
      })
      const broken = libraryOf(cluster(), mutant.engine, mutant.api, mutant.leases)
      const sound = libraryOf(cluster(), engine, api, leases)
      const outcomes = [sound, broken].map((library) => passes(find(mutation.caughtBy, library)))
      expect(await Promise.all(outcomes)).toEqual([true, false])
    })
  },
  { needs: [programs.clientGo] },
)
