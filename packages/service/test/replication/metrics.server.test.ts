import { expect, onTestFinished, test, vi } from 'vitest'
import { etcd } from '../../../../test/servers/etcd.ts'
import { describeWith } from '../../../../test/servers/suite.ts'
import { campaign, startReplicas, won } from './process-scene.ts'
import { activeOf, type ReplicaProcess } from './replica-process.ts'

/** The metrics of the group that a replica exposes, by the names of their series. Empty if it exposes none. */
async function shownBy({ port }: ReplicaProcess): Promise<Record<string, number>> {
  const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
  const found = text.matchAll(/^tenure_group_(\w+)\{group="payments"\} (\S+)$/gm)
  return Object.fromEntries([...found].map(([, name = '', value]) => [name, Number(value)]))
}

describeWith(etcd, 'metrics of a group on replicas', (server) => {
  test(
    'only the active replica shows metrics of a group, even after a failover and after a pause',
    { timeout: 60_000 },
    async () => {
      vi.stubEnv('METRICS_GROUP', 'payments')
      onTestFinished(() => void vi.unstubAllEnvs())
      const { active, followers } = await startReplicas({ members: [server().port] })
      expect(await shownBy(active)).toMatchObject({ has_leader: 0, term: 0, lease_remaining_seconds: 0 })
      // Through a follower, which forwards the campaign.
      expect(await campaign(followers[0], 'payments', 'a')).toMatchObject(won(1))
      expect(await shownBy(active)).toMatchObject({ has_leader: 1, term: 1 })
      for (const follower of followers) expect(await shownBy(follower)).toEqual({})
      await active.kill()
      const second = await activeOf(followers, active.servedTerm)
      await expect.poll(() => shownBy(second), { timeout: 20_000 }).toMatchObject({ has_leader: 1, term: 1 })
      await second.pause()
      const third = await activeOf(
        followers.filter((each) => each !== second),
        second.servedTerm,
      )
      const late = shownBy(second)
      second.resume()
      // The request was sent during the pause and is answered when another replica is active.
      expect(await late).toEqual({})
      expect(await shownBy(third)).toMatchObject({ has_leader: 1, term: 1 })
    },
  )
})
