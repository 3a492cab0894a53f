import { describe, expect, vi } from 'vitest'
import { leaseNameOf } from '../../packages/tenure/src/kubernetes/codec/lease-name.ts'
import { kubernetesStore } from '../../packages/tenure/src/stores/kubernetes/index.ts'
import { LeaderElector } from '../../packages/tenure/src/api/leader-elector.ts'
import { startClientGo } from '../servers/client-go.ts'
import { programs } from '../servers/programs.ts'
import { describeWithCluster } from '../servers/suite.ts'
import { sceneTest, timings, type Scene } from './lease-fixture.ts'

/** Returns a name of this length, in one part or in parts of this length. */
function longName(scene: Scene, length: number, part = length): string {
  const begun = `${scene.leaseName}-`
  const text = Array.from({ length }, (_, at) => begun[at] ?? ((at + 1) % (part + 1) === 0 ? '.' : 'x')).join('')
  return text.endsWith('.') ? `${text.slice(0, -1)}x` : text
}

describeWithCluster(
  'Names of Leases on a real API server',
  (cluster) => {
    const test = sceneTest(cluster)
    const leases = ({ cluster: { namespace } }: Scene) => `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`
    const statusOf = async (scene: Scene, name: string) =>
      (await scene.cluster.admin.request('GET', `${leases(scene)}/${name}`)).status

    function clientGo(scene: Scene, lease: string) {
      const { url, caFile, adminToken, namespace } = scene.cluster
      const identity = 'go'
      const peer = startClientGo({ server: url, caFile, token: adminToken, namespace, lease, identity, ...timings })
      scene.onEnd(() => peer.stop())
      return peer
    }

    describe.concurrent('a valid Lease name', () => {
      test('a valid Lease name has at most 253 characters, however long its parts are', async ({ scene }) => {
        const { admin } = scene.cluster
        const create = async (name: string) => {
          const body = { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata: { name }, spec: {} }
          return (await admin.request('POST', leases(scene), body)).status
        }
        const [part, whole, parts, over] = [100, 253, 253, 254].map((length, index) =>
          longName(scene, length, index === 2 ? 120 : length),
        ) as [string, string, string, string]
        expect(await Promise.all([part, whole, parts, over].map(create))).toEqual([201, 201, 201, 422])
        expect([part, whole, parts].map(leaseNameOf)).toEqual([part, whole, parts])
        expect(leaseNameOf(over)).not.toBe(over)
        for (const odd of ['a..b', '-a', 'a-', 'a.-b', 'a-.b', 'A', 'a_b', '.a', 'a.']) {
          expect(await create(odd), odd).toBe(422)
          expect(leaseNameOf(odd)).not.toBe(odd)
        }
      })

      test('Tenure and client-go have one leader on a Lease whose name has a part of 100 characters, whichever starts first', async ({
        scene,
      }) => {
        const [first, second] = [longName(scene, 100), longName(scene, 101)]
        const peer = clientGo(scene, first)
        await peer.first('started')
        const standby = scene.elector('pod-a', { election: first })
        await scene.until(() => standby.elector.isLeader() || standby.elector.leader()?.holder === 'go')
        expect(standby.elector.isLeader()).toBe(false)

        const leader = scene.elector('pod-b', { election: second })
        await scene.event(leader, 'elected')
        const other = clientGo(scene, second)
        const { identity } = await Promise.race([other.first('new-leader'), other.first('started')])
        expect(identity).toBe('pod-b')

        await peer.kill('SIGTERM')
        await scene.event(standby, 'elected')
        // Both may lead at once, because these are two elections.
        scene.mayOverlap = true
      })

      test('LeaderElector accepts a leaseName of up to 253 characters, including for Events', async ({ scene }) => {
        const leaseName = longName(scene, 253)
        const replica = scene.replica('pod-a', { leaseName, recordEvents: true })
        await scene.event(replica, 'renewed')
        expect(await statusOf(scene, leaseName)).toBe(200)
        const standby = scene.replica('pod-b', { leaseName })
        await scene.until(() => standby.elector.getLeader() === 'pod-a')
        replica.abort()
        await scene.event(standby, 'elected')
        await replica.run
        expect(replica.events.filter(({ type }) => type === 'error')).toEqual([])
      })
    })

    describe.concurrent('an invalid Lease name', () => {
      test('the store hashes an invalid Lease name, and warns once with both names', async ({ scene }) => {
        const { namespace } = scene.cluster
        const election = `${scene.leaseName} of the Night`
        const warnings: string[] = []
        const hear = ({ name, message }: Error) => void (name === 'TenureWarning' && warnings.push(message))
        process.on('warning', hear)
        scene.onEnd(() => void process.off('warning', hear))
        // A process emits a limited number of warnings, and other tests may have used them up.
        vi.resetModules()
        const fresh = await import('../../packages/tenure/src/stores/kubernetes/index.ts')
        const open = () => fresh.kubernetesStore({ client: scene.client(), namespace })
        const [leader, standby] = [open(), open()]
        const call = { signal: new AbortController().signal, timeoutMs: 5_000 }
        const claim = { election, holder: 'pod-a', attempt: 'a', leaseDurationMs: 3_000, afterTerm: 0, metadata: {} }
        expect(await leader.acquire(claim, call)).toMatchObject({ ok: true })
        expect(await standby.read(election, call)).toMatchObject({ holder: 'pod-a' })
        const name = leaseNameOf(election)
        expect(await statusOf(scene, name)).toBe(200)
        const told = warnings.filter((message) => message.includes(election))
        expect(told).toEqual([expect.stringContaining(`"${namespace}/${name}"`)])
      })

      test('LeaderElector rejects an invalid Lease name, on a client and on a store of Leases', ({ scene }) => {
        const { namespace: leaseNamespace } = scene.cluster
        const client = scene.client()
        const store = kubernetesStore({ client, namespace: leaseNamespace })
        const fields = { leaseNamespace, identity: 'pod-a', callbacks: { onStartedLeading: () => undefined } }
        for (const leaseName of ['My-App', 'a/b', 'a..b', 'x'.repeat(254), leaseNameOf('My App')]) {
          expect(() => scene.replica('pod-a', { leaseName, client }), leaseName).toThrow(/Option "leaseName" is/)
          expect(() => new LeaderElector({ ...fields, store, leaseName }), leaseName).toThrow(/Option "leaseName" is/)
        }
      })
    })
  },
  { needs: [programs.clientGo] },
)
