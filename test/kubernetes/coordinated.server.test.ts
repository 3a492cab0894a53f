import { expect } from 'vitest'
import { nowMs, sceneTest, type Lease, type Scene } from './lease-fixture.ts'
import { describeWithCluster, describeWithOwnCluster } from '../servers/suite.ts'

const coordination = { strategy: 'OldestEmulationVersion', preferredHolder: 'somebody-better' }
const coordinationOf = ({ spec: { strategy, preferredHolder } }: Lease) => ({ strategy, preferredHolder })

describeWithOwnCluster(
  'coordinated leader election, enabled',
  (cluster) => {
    const test = sceneTest(cluster)

    test('an acquire, renewals, and a release keep the fields of coordinated leader election', async ({ scene }) => {
      await scene.createLease(coordination)
      expect(coordinationOf(await scene.lease())).toEqual(coordination)
      const first = scene.replica('pod-a')
      const { atMs } = await scene.event(first, 'elected')
      expect(coordinationOf(await scene.lease())).toEqual(coordination)
      // The second renewal is based on the answer to the first one.
      await scene.event(first, 'renewed', (await scene.event(first, 'renewed', atMs)).atMs)
      expect(await scene.lease()).toMatchObject({ spec: { holderIdentity: 'pod-a', ...coordination } })
      first.abort()
      await first.run
      const released = await scene.lease()
      expect(released.spec.holderIdentity).toBeUndefined()
      expect(coordinationOf(released)).toEqual(coordination)
    })

    /** Adds a candidate for which the controller elects. */
    const enter = async ({ cluster: { admin, namespace }, leaseName }: Scene, name: string) => {
      const path = `/apis/coordination.k8s.io/v1beta1/namespaces/${namespace}/leasecandidates`
      const renewTime = new Date().toISOString().replace('Z', '000Z')
      const versions = { binaryVersion: '1.34.0', emulationVersion: '1.34.0' }
      const spec = { leaseName, ...versions, strategy: coordination.strategy, renewTime }
      const { status, body } = await admin.request('POST', path, { metadata: { name }, spec })
      expect(status, JSON.stringify(body)).toBe(201)
    }

    test('Tenure waits while the holder that the coordinated election controller appointed has the Lease', async ({
      scene,
    }) => {
      await enter(scene, 'candidate')
      await scene.until(async () => (await scene.lease().catch(() => undefined))?.spec.holderIdentity === 'candidate')
      const standby = scene.replica('pod-a')
      await scene.until(() => standby.elector.getLeader() === 'candidate')
      expect(standby.elector.isLeader()).toBe(false)
    })

    test('Tenure ignores a yield request of coordinated leader election, so the two must not share a Lease', async ({
      scene,
    }) => {
      const leader = scene.replica('pod-a')
      const { term } = await scene.event(leader, 'elected')
      await enter(scene, 'candidate-of-another')
      const isAsked = async () => coordinationOf(await scene.lease()).preferredHolder === 'candidate-of-another'
      await scene.until(isAsked)
      const askedMs = nowMs()
      await scene.event(leader, 'renewed', (await scene.event(leader, 'renewed', askedMs)).atMs)
      expect(await scene.lease()).toMatchObject({ spec: { holderIdentity: 'pod-a', leaseTransitions: term } })
      expect(await isAsked()).toBe(true)
    })
  },
  { flags: ['--feature-gates=CoordinatedLeaderElection=true', '--runtime-config=coordination.k8s.io/v1beta1=true'] },
)

describeWithCluster('coordinated leader election, disabled as by default', (cluster) => {
  sceneTest(cluster)(
    'the API server drops the fields of coordinated leader election when it is disabled',
    async ({ scene }) => {
      expect(coordinationOf(await scene.createLease(coordination))).toEqual({})
    },
  )
})
