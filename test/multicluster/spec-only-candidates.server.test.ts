/** Spec-only candidates: client-go's own elector on the fields of the spec. */
import { beforeAll, expect, test, vi, type TestContext } from 'vitest'
import { Elector } from '../../packages/tenure/src/engine/elector.ts'
import { KubernetesClient } from '../../packages/tenure/src/clients/kubernetes/client.ts'
import type {
  Condition,
  MultiClusterLeaseStatus,
} from '../../packages/tenure/src/multicluster/protocol/resource-types.ts'
import { multiclusterStore } from '../../packages/tenure/src/stores/multicluster/index.ts'
import { nowMs, overlaps, type Belief } from '../kubernetes/beliefs.ts'
import { startClusters, type Clusters, type Member } from './clusters.ts'
import { startClientGo, type ClientGo, type ClientGoOptions } from '../servers/client-go.ts'
import { clusterPrograms } from '../servers/cluster.ts'
import { programs } from '../servers/programs.ts'
import { startProxy } from '../servers/proxy.ts'
import { describeWithPrograms } from '../servers/suite.ts'

const namespace = 'default'
/** Short, in the proportions of client-go's defaults. */
const timings = { leaseDurationMs: 4_500, renewDeadlineMs: 3_000, retryPeriodMs: 600 }
const soon = { timeout: 60_000, interval: 50 }

describeWithPrograms([...clusterPrograms, programs.clientGo], 'spec-only candidates', () => {
  let clusters: Clusters

  beforeAll(async () => {
    clusters = await startClusters({ names: ['east', 'west'] })
    return () => clusters.stop()
  })

  /** Tests run concurrently, so each is named by its own context. */
  const start = (
    { onTestFinished }: TestContext,
    { api }: Member,
    { identity, lease, ...more }: Pick<ClientGoOptions, 'identity' | 'lease'> & Partial<ClientGoOptions>,
  ) => {
    const { url: server, caFile, adminToken: token } = api
    const options = { server, caFile, token, namespace, lease, identity, multicluster: true, ...timings, ...more }
    const candidate = startClientGo(options)
    onTestFinished(() => candidate.stop())
    return candidate
  }
  const statusIn = async ({ api }: Member, lease: string): Promise<Partial<MultiClusterLeaseStatus>> => {
    const path = `/apis/tenure.dev/v1alpha1/namespaces/${namespace}/multiclusterleases/${lease}`
    const { body } = await api.admin.request<{ status?: MultiClusterLeaseStatus }>('GET', path)
    return body.status ?? {}
  }
  /** Starts one candidate in each cluster, and returns the one that leads. */
  const race = async (
    context: TestContext,
    options: Pick<ClientGoOptions, 'lease'> & Partial<ClientGoOptions>,
    identities = ['a', 'b'],
  ) => {
    const sides = clusters.members.map((member, index) => ({
      member,
      candidate: start(context, member, { identity: identities[index] ?? '', ...options }),
    }))
    const started = sides.map(async (side) => (await side.candidate.first('started')) && side)
    const leading = await Promise.race(started)
    for (const other of started) other.catch(() => undefined)
    const standby = sides.find((side) => side !== leading)
    if (!standby) throw new Error('there is no standby')
    return { leading, standby, candidates: sides.map(({ candidate }) => candidate) }
  }

  test.concurrent('spec-only candidates lead one at a time with the timings of client-go, even with equal names', async (context) => {
    const lease = 'equal-names'
    const durations = { leaseDurationMs: 15_000, renewDeadlineMs: 10_000, retryPeriodMs: 2_000 }
    const { leading, standby, candidates } = await race(context, { lease, ...durations }, ['pod-0', 'pod-0'])
    const first = await statusIn(leading.member, lease)
    expect(first).toMatchObject({ leader: 'pod-0', globalHolderIdentity: 'pod-0', cluster: leading.member.name })
    const elsewhere = `${leading.member.name}/pod-0`
    await vi.waitUntil(async () => (await statusIn(standby.member, lease)).globalHolderIdentity === elsewhere, soon)
    // Wait for three renewals, each of which the status confirms.
    const renewals = new Set<string | undefined>()
    await vi.waitUntil(async () => renewals.add((await statusIn(leading.member, lease)).renewTime).size > 3, soon)
    expect(leading.candidate.events.filter(({ event }) => event === 'stopped')).toEqual([])
    await leading.candidate.kill('SIGTERM')
    await standby.candidate.first('started')
    const second = await statusIn(standby.member, lease)
    expect(second).toMatchObject({ globalHolderIdentity: 'pod-0', cluster: standby.member.name })
    expect(second.term).toBeGreaterThan(first.term ?? NaN)
    expect(overlaps(candidates.flatMap((candidate) => beliefsOf(candidate)))).toEqual([])
  })

  test.concurrent('a spec-only candidate waits for twice the lease of a killed leader', async (context) => {
    const lease = 'killed'
    const { leading, standby, candidates } = await race(context, { lease })
    await vi.waitUntil(async () => (await statusIn(standby.member, lease)).globalHolderIdentity, soon)
    const { renewTime } = await statusIn(leading.member, lease)
    await vi.waitUntil(async () => (await statusIn(leading.member, lease)).renewTime !== renewTime, soon)
    const killedMs = nowMs()
    await leading.candidate.stop()
    const { monotonicMs } = await standby.candidate.first('started')
    // The killed leader's last renewal was shortly before, so a single lease would have expired by then.
    expect(monotonicMs - killedMs).toBeGreaterThan(timings.leaseDurationMs)
    expect(overlaps(candidates.flatMap((candidate) => beliefsOf(candidate, killedMs)))).toEqual([])
  })

  test.concurrent('a spec-only candidate that is cut off stops before another one leads', async (context) => {
    const lease = 'cut-off'
    const [east, west] = clusters.members as [Member, Member]
    const network = await startProxy(east.api.port)
    context.onTestFinished(() => network.stop())
    const cut = start(context, east, { lease, identity: 'a', server: `https://127.0.0.1:${network.port}` })
    await cut.first('started')
    const standby = start(context, west, { lease, identity: 'b' })
    await vi.waitUntil(async () => (await statusIn(west, lease)).globalHolderIdentity === 'east/a', soon)
    network.set('blackhole')
    const stopped = await cut.first('stopped')
    const started = await standby.first('started')
    expect(started.monotonicMs).toBeGreaterThan(stopped.monotonicMs)
    expect(overlaps([cut, standby].flatMap((candidate) => beliefsOf(candidate)))).toEqual([])
  })

  test.concurrent('spec-only candidates are rejected in a resource with candidates that send requests', async (context) => {
    const lease = 'mixed'
    const [east] = clusters.members as [Member, Member]
    const known = start(context, east, { lease, identity: 'a' })
    await known.first('started')
    const { url: server, adminToken, ca } = east.api
    const credentials = () => ({ authorization: `Bearer ${adminToken}`, tls: { ca } })
    const store = multiclusterStore({ client: new KubernetesClient({ server, credentials }), namespace })
    const elector = new Elector({ store, election: lease, identity: 'b', leaseDurationMs: timings.leaseDurationMs })
    context.onTestFinished(async () => {
      await elector.stop()
      await store.close?.()
    })
    const beliefs: Belief[] = []
    void elector.waitForLeadership().then(({ term, signal }) => {
      const belief = { identity: 'b', term, fromMs: nowMs(), toMs: Infinity }
      beliefs.push(belief)
      signal.addEventListener('abort', () => (belief.toMs = nowMs()), { once: true })
    })
    elector.start()
    const ready = ({ conditions = [] }: Partial<MultiClusterLeaseStatus>): Condition | undefined =>
      conditions.find(({ type }) => type === 'Ready')
    await vi.waitUntil(async () => ready(await statusIn(east, lease))?.reason === 'MixedCandidates', soon)
    expect(ready(await statusIn(east, lease))).toMatchObject({ status: 'False' })
    // The heartbeats of the spec-only candidate are no longer served, so its lease expires.
    await known.first('stopped')
    await vi.waitUntil(() => elector.isLeader(), soon)
    expect(overlaps([...beliefs, ...beliefsOf(known)])).toEqual([])
  })
})

/** Returns the beliefs from each start to the next stop, or to the end of the process. */
function beliefsOf({ events, identity }: ClientGo, endMs = Infinity): Pick<Belief, 'identity' | 'fromMs' | 'toMs'>[] {
  return events.flatMap(({ event, monotonicMs: fromMs }, index) => {
    if (event !== 'started') return []
    const stopped = events.slice(index).find((later) => later.event === 'stopped')
    // A killed process reports nothing.
    const toMs = stopped?.monotonicMs ?? (fromMs < endMs ? endMs : Infinity)
    return [{ identity, fromMs, toMs }]
  })
}
