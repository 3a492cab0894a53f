/** Every API style, unchanged, in two clusters that share only a global lock. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Elector, lead, LeaderElector, Manager, type LeaseStore } from 'tenure'
import { storeConformance } from '@tenure/testing/conformance'
import { fromKubeConfig } from 'tenure/kubernetes'
import { multiclusterStore } from 'tenure/stores/multicluster'
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { linesOf, run, temporaryFolder, tenure } from '../../packages/cli/test/tenure.ts'
import { leaseNameOf } from '../../packages/tenure/src/kubernetes/codec/lease-name.ts'
import { presenceSuite } from '../../packages/tenure/test/engine/members/store-suite.ts'
import { shardSuite } from '../../packages/tenure/test/shards/store-suite.ts'
import { kubeConfigOf } from '../kubernetes/kube-config.ts'
import { startTwoClusters, type TestCluster, type TwoClusters } from './two-clusters.ts'
import { clusterPrograms } from '../servers/cluster.ts'
import { removeKeys } from '../servers/etcd.ts'
import { describeWithPrograms } from '../servers/suite.ts'

/** A candidate of any style. */
interface Candidate {
  /** Resolves with the term when it leads. */
  readonly leads: Promise<number>
  /** Releases leadership. */
  end(): Promise<unknown>
}

// Both clusters use the same identity, like pods of two StatefulSets with the same name.
const identity = 'my-app-0'
const leaseDurationMs = 15_000

const styles: Record<string, (store: LeaseStore, election: string) => Candidate> = {
  Elector(store, election) {
    const elector = new Elector({ store, election, identity, leaseDurationMs })
    elector.start()
    return { leads: elector.waitForLeadership().then(({ term }) => term), end: () => elector.stop() }
  },
  Manager(store, election) {
    const manager = new Manager({ store, election, identity, leaseDurationMs })
    const lease = manager.start()
    return { leads: lease.waitForLeadership().then(({ term }) => term), end: () => manager.stop() }
  },
  LeaderElector(store, election) {
    const ending = new AbortController()
    let running: Promise<unknown> | undefined
    const leads = new Promise<number>((resolve) => {
      const callbacks = { onStartedLeading: (_: AbortSignal, { term }: { term: number }) => resolve(term) }
      const leaseNamespace = store.namespace ?? ''
      const options = { leaseName: election, leaseNamespace, identity, leaseDurationMs, callbacks }
      running = new LeaderElector({ store, ...options }).run({ signal: ending.signal })
    })
    return { leads, end: () => (ending.abort(), running ?? Promise.resolve()) }
  },
  lead(store, election) {
    const ending = new AbortController()
    let running: Promise<unknown> | undefined
    const leads = new Promise<number>((resolve) => {
      const options = { store, election, identity, leaseDurationMs, signal: ending.signal }
      running = lead(options, async (leadership) => {
        resolve(leadership.term)
        await new Promise((settle) => leadership.signal.addEventListener('abort', settle))
      })
      running.catch(() => undefined)
    })
    return { leads, end: async () => (ending.abort(), await running?.catch(() => undefined)) }
  },
}

describeWithPrograms(clusterPrograms, 'across two clusters', () => {
  let clusters: TwoClusters | undefined
  beforeAll(async () => {
    clusters = await startTwoClusters()
  })
  afterAll(() => clusters?.stop())
  const site = (name: 'east' | 'west'): TestCluster =>
    clusters?.[name] ?? expect.unreachable('the clusters were not started')
  const open = (name: 'east' | 'west') => {
    const store = site(name).open()
    onTestFinished(() => store.close?.())
    return store
  }
  const call = () => ({ signal: AbortSignal.timeout(20_000), timeoutMs: 10_000 })

  test.concurrent.for(Object.entries(styles))(
    '%s: one candidate leads, and the other cluster takes over',
    async ([name, begin], { expect, onTestFinished }) => {
      const election = `style-${name.toLowerCase()}`
      const [inEast, inWest] = [site('east').open(), site('west').open()]
      onTestFinished(async () => void (await Promise.all([inEast.close?.(), inWest.close?.()])))
      const east = begin(inEast, election)
      onTestFinished(async () => void (await east.end()))
      const term = await east.leads
      const west = begin(inWest, election)
      onTestFinished(async () => void (await west.end()))
      const calm = Symbol('nobody else leads')
      const held = new Promise((resolve) => setTimeout(resolve, 1_000, calm))
      expect(await Promise.race([west.leads, held]), 'a second candidate leads').toBe(calm)
      // The same name in the other cluster is another candidate.
      expect((await inWest.read(election, call()))?.holder).toBe(`east/${identity}`)
      expect((await inEast.read(election, call()))?.holder).toBe(identity)
      await east.end()
      expect(await west.leads).toBeGreaterThan(term)
      expect((await inEast.read(election, call()))?.holder).toBe(`west/${identity}`)
    },
  )

  describe('the command line', () => {
    const env = (name: 'east' | 'west') => ({ KUBECONFIG: site(name).kubeConfig, KUBERNETES_SERVICE_HOST: '' })
    const store = () => `multicluster://${clusters?.namespace ?? ''}`
    const printTerm = 'console.log(process.env.TENURE_TERM); setInterval(() => undefined, 1000)'
    const runIn = (name: 'east' | 'west', election: string) =>
      tenure(['run', election, '--store', store(), '--identity', 'node', '--', process.execPath, '-e', printTerm], {
        env: env(name),
      })

    test('the command line runs a program in one cluster and then in the other, and shows the leader and each change', async () => {
      const east = runIn('east', 'job')
      await vi.waitUntil(() => east.output.out === '1\n', { timeout: 30_000 })
      const watching = tenure(['watch', 'job', '--store', store(), '--json'], { env: env('west') })
      const seen = () => linesOf(watching.output.out).map(({ type }) => type)
      await vi.waitUntil(() => seen().length === 1, { timeout: 20_000 })
      const west = runIn('west', 'job')
      const leader = await run(['leader', 'job', '--store', store(), '--json'], { env: env('west') })
      expect(linesOf(leader.out), leader.error).toMatchObject([{ leader: { holder: 'east/node', term: 1 } }])
      expect(west.output.out).toBe('')
      const groups = await run(['groups', '--store', store()], { env: env('east') })
      expect(groups.out, groups.error).toMatch(/^job .*node/m)
      east.child.kill('SIGTERM')
      await vi.waitUntil(() => west.output.out === '2\n', { timeout: 30_000 })
      await vi.waitUntil(() => seen().includes('elected'), { timeout: 20_000 })
      expect(await east.ended).toBe(143)
    })

    test('tenure doctor reports the multi-cluster store as safe and prints each right', async () => {
      const args = ['doctor', '--store', store(), '--ttl', '10m', '--calls', '3']
      const { code, out, error } = await run(args, { env: env('west') })
      expect({ code, error }, out).toEqual({ code: 0, error: '' })
      expect(out).toMatch(/^rights +get yes, create yes, patch yes, watch yes$/m)
      expect(out).toMatch(/^watch +shows a change after /m)
      expect(out).toMatch(/^settings +no problems with the settings of the server$/m)
    })

    test('tenure sidecar reports whether it leads across clusters', async () => {
      const args = ['sidecar', 'side', '--store', store(), '--listen', '127.0.0.1:0', '--json', '--identity', 'pod']
      const sidecar = tenure(args, { env: env('east') })
      const started = () => linesOf(sidecar.output.error).find(({ url }) => url !== undefined)
      const { url } = await vi.waitUntil(started, { timeout: 30_000 })
      const status = async () => (await fetch(`${String(url)}/is-leader`)).status
      await expect.poll(status, { timeout: 30_000 }).toBe(200)
    })
  })

  describe('the error of a call', () => {
    const claim = { holder: 'ada', attempt: 'a-1', leaseDurationMs, afterTerm: 0, metadata: {} }

    test('a read that times out reports that no controller serves the namespace', async () => {
      const store = multiclusterStore({ client: site('east').client(), namespace: 'default' })
      onTestFinished(() => store.close?.())
      const reading = store.read('unserved', { ...call(), timeoutMs: 500 })
      await expect(reading).rejects.toMatchObject({
        code: 'TIMEOUT',
        retryable: true,
        message: expect.stringMatching(/No controller has ever answered there\. Is "tenure controller" running/),
      })
    })

    test('a call reports that the CRD is not installed', () => {
      expect(clusters?.tooEarly).toMatchObject({
        code: 'BACKEND_UNAVAILABLE',
        message: expect.stringContaining('does not know the kind. Apply deploy/multicluster/crd.yaml.'),
      })
    })

    test('a call reports the rights that the caller lacks', async () => {
      const { namespace = '' } = clusters ?? {}
      const { server } = site('east')
      const file = join(temporaryFolder(), 'config')
      writeFileSync(file, kubeConfigOf(server, { token: server.tokenOf('stranger') }))
      const store = multiclusterStore({ client: fromKubeConfig(file), namespace })
      onTestFinished(() => store.close?.())
      await expect(store.read('job', call())).rejects.toMatchObject({
        code: 'UNAUTHORIZED',
        message: expect.stringMatching(/denied the request \(403\)\..*Bind a Role from deploy\/multicluster/),
      })
      const [missing] = (await store.examine?.('job', call())) ?? []
      expect(missing).toMatchObject({ code: 'MISSING_RIGHT' })
      expect(missing?.message).toContain(`may not get, create, patch or watch MultiClusterLease "${namespace}/job".`)
      expect(missing?.message).toContain('Bind the Role from deploy/multicluster/candidate to it')
      expect(missing?.message).toContain('--verb=get,create,patch,watch --resource=multiclusterleases.tenure.dev')
    })

    test('the API server refuses a resource that violates the CRD', async () => {
      const acquiring = open('east').acquire({ ...claim, election: 'refused', attempt: 'a'.repeat(5_000) }, call())
      await expect(acquiring).rejects.toThrow(/Cannot create MultiClusterLease ".*\/refused".*422.*attempt/s)
    })
  })

  describe('members and shards of both clusters', () => {
    /** The processes of every other letter run in the west. */
    const clusterOf = (name: string) => (['b', 'd'].includes(name) ? 'west' : 'east')
    presenceSuite('two clusters', () => site('east').open(), {
      openFor: (name) => site(clusterOf(name)).open(),
      shownAs: (name) => (clusterOf(name) === 'west' ? `west/${name}` : name),
      longLeaseMs: leaseDurationMs,
    })
    shardSuite('two clusters', () => site('east').open(), {
      openFor: (name) => site(clusterOf(name)).open(),
      leaseDurationMs,
      async removeRecord(group) {
        const { global, namespace } = clusters ?? expect.unreachable()
        await removeKeys(global, `tenure/${encodeURIComponent(`${namespace}/${leaseNameOf(group)}`)}/record`)
      },
    })
  })

  test('a leader hands over by name to a candidate of another cluster', async () => {
    const start = (cluster: 'east' | 'west', name: string) => {
      const elector = new Elector({ store: open(cluster), election: 'handed-over', identity: name, leaseDurationMs })
      onTestFinished(() => elector.stop())
      elector.start()
      return elector
    }
    const leader = start('east', 'a')
    await leader.waitForLeadership()
    const others = [start('east', 'b'), start('east', 'c'), start('west', 'a'), start('west', 'b')]
    const named = start('west', 'c')
    await vi.waitUntil(() => [...others, named].every((elector) => elector.leader() !== undefined), 20_000)
    await leader.stepDown({ to: 'west/c' })
    expect((await named.waitForLeadership()).term).toBe(2)
  })

  describe('the lock passes the conformance suite', () => {
    // Cases that do not hold with a controller. The controller decides expiry for candidates that do not decide it
    // themselves, and it does not watch a lease held in its own cluster.
    const otherwise = [
      'acquire of a held lease is refused without expiredVersion',
      'a watch shows a removal',
      'list omits a record that was removed',
    ]
    const makeStore = () => {
      const { east, global, namespace } = clusters ?? expect.unreachable()
      const remove = async (election: string) => {
        const key = encodeURIComponent(`${namespace}/${leaseNameOf(election)}`)
        await removeKeys(global, `tenure/${key}/record`)
      }
      return { store: east.open(), open: east.open, remove, longestHolderBytes: 192 }
    }
    const cases = storeConformance(makeStore, { leaseDurationMs: 1_000, patienceMs: 20_000 })
    for (const { name, run } of cases) {
      if (!otherwise.includes(name)) test.concurrent(name, run, 120_000)
    }
  })
})
