import { expect } from 'vitest'
import { systemClock } from '../../packages/tenure/src/common/clock.ts'
import { Elector } from '../../packages/tenure/src/engine/elector.ts'
import { requestHandOver, type HandOverOutcome } from '../../packages/tenure/src/engine/members/request-hand-over.ts'
import { kubernetesStore } from '../../packages/tenure/src/stores/kubernetes/index.ts'
import { startClientGo, type ClientGo } from '../servers/client-go.ts'
import { programs } from '../servers/programs.ts'
import { describeWithCluster } from '../servers/suite.ts'
import { sceneTest, timings, type Scene } from './lease-fixture.ts'

const waitMs = 10_000

describeWithCluster(
  'Handover by name on a Lease that client-go shares',
  (cluster) => {
    const test = sceneTest(cluster)
    const storeOf = (scene: Scene) => kubernetesStore({ client: scene.client(), namespace: scene.cluster.namespace })

    function clientGo(scene: Scene): ClientGo {
      const { url, caFile, adminToken, namespace } = scene.cluster
      const shared = { server: url, caFile, token: adminToken, namespace, lease: scene.leaseName }
      const peer = startClientGo({ ...shared, identity: 'go', ...timings })
      scene.onEnd(() => peer.stop())
      return peer
    }

    function present(scene: Scene, identity: string): Elector {
      const { retryPeriodMs: retryIntervalMs, ...same } = timings
      const options = { ...same, retryIntervalMs, maxMembers: 8, present: true, log: false } as const
      const elector = new Elector({ store: storeOf(scene), election: scene.leaseName, identity, ...options })
      scene.onEnd(() => elector.stop())
      elector.start()
      return elector
    }

    function request(scene: Scene, to: string): Promise<HandOverOutcome> {
      const { signal } = new AbortController()
      const asked = { election: scene.leaseName, to, identity: 'admin', waitMs, timeoutMs: 5_000, signal }
      return requestHandOver(storeOf(scene), { ...asked, clock: systemClock })
    }

    test('a leader of Tenure hands over to a named standby, and a candidate of client-go that wins leads safely', async ({
      scene,
    }) => {
      const electors = new Map([['pod-a', present(scene, 'pod-a')]])
      const leader = () => [...electors].find(([, elector]) => elector.isLeader())?.[0]
      await scene.until(() => leader() === 'pod-a')
      electors.set('pod-b', present(scene, 'pod-b'))
      await scene.until(() => [...electors.values()].every((elector) => elector.explain().seat !== undefined))
      let peer = clientGo(scene)
      await peer.first('new-leader')
      // Client-go ignores the name, so it wins a few of these races.
      for (let round = 0; ; round += 1) {
        const to = leader() === 'pod-a' ? 'pod-b' : 'pod-a'
        const outcome = await request(scene, to)
        expect(outcome.result).toBeOneOf(round < 4 ? ['handed-over', 'led-by-other'] : ['handed-over'])
        if (outcome.result === 'handed-over') {
          expect(leader()).toBe(to)
          break
        }
        expect(outcome).toMatchObject({ holder: 'go' })
        await peer.kill('SIGTERM')
        await scene.until(() => leader() !== undefined)
        peer = clientGo(scene)
        await peer.first('new-leader')
      }
      // A leader without presence does not read the request.
      await Promise.all([...electors.values()].map((elector) => elector.stepDown({ cooldownMs: 3_000 })))
      await peer.first('started')
      expect(await request(scene, 'pod-b')).toMatchObject({ result: 'no-reaction', holder: 'go', isPresent: false })
      await peer.kill('SIGTERM')
      await scene.until(() => leader() !== undefined)
    })
  },
  { needs: [programs.clientGo] },
)
