/** A fleet on three members of etcd: one is killed, two are killed, or one is cut off from the others. */
import { setTimeout as delay } from 'node:timers/promises'
import { expect, test, vi, type TestContext } from 'vitest'
import { etcdStore } from 'tenure/stores/etcd'
import { beliefsOf, findViolations } from './check-logs.ts'
import { Fleet } from './fleet.ts'
import { startEtcdCluster, type EtcdMember } from '../servers/etcd-cluster.ts'
import { programs } from '../servers/programs.ts'
import { describeWithPrograms } from '../servers/suite.ts'

/** Long enough for the members to elect another leader, even on a busy machine. */
const patient = { leaseDurationMs: 12_000, renewIntervalMs: 800 }
const brief = { leaseDurationMs: 4_000, renewIntervalMs: 800 }

/** These tests run concurrently, so each has its own cleanup. */
async function openScene({ onTestFinished }: TestContext, timings: { readonly leaseDurationMs: number }) {
  const cluster = await startEtcdCluster(programs.etcd)
  onTestFinished(() => cluster.stop())
  const hosts = cluster.members.map(({ port }) => `127.0.0.1:${port}`)
  const place = () => ({ store: 'url', url: `etcd://${hosts.join(',')}` }) as const
  const fleet = await Fleet.open({ size: 3, timings, place })
  onTestFinished(({ task }) => fleet.close({ keepFolder: task.result?.state === 'fail' }))
  await fleet.start()
  const leader = await fleet.nextLeader(0)
  return { cluster, fleet, leader }
}

const others = ({ members }: { readonly members: readonly EtcdMember[] }, one: EtcdMember) =>
  members.filter(({ id }) => id !== one.id)

describeWithPrograms([programs.etcd], 'a fleet on three members of etcd', () => {
  const options = { timeout: 120_000 }
  test.concurrent(
    'a fleet keeps its leader when the leading etcd member is killed and another member replaces it',
    options,
    async (context) => {
      const { cluster, fleet, leader } = await openScene(context, patient)
      const { term } = leader
      for (let round = 0; round < 2; round++) {
        const killed = await cluster.leader()
        await killed.kill('SIGKILL')
        await leader.until('renewed', 3)
        await killed.start()
      }
      expect(leader.term).toBe(term)
      await fleet.stop()
      expect(findViolations(await fleet.lives(), fleet.guard, ['TIMEOUT', 'BACKEND_UNAVAILABLE'])).toEqual([])
    },
  )

  test.concurrent(
    'a fleet has no leader without a majority of etcd, and a leader in a new term when the majority is back',
    options,
    async (context) => {
      const { cluster, fleet, leader } = await openScene(context, brief)
      const { term } = leader
      const [survivor] = cluster.members
      if (!survivor) throw new Error('no etcd member is left')
      const gone = others(cluster, survivor)
      const lost = leader.until('lost')
      await Promise.all(gone.map((member) => member.kill('SIGKILL')))
      await lost
      await delay(1.5 * brief.leaseDurationMs)
      expect(fleet.members.map((member) => member.term)).toEqual([undefined, undefined, undefined])
      await Promise.all(gone.map((member) => member.start()))
      expect((await fleet.nextLeader(term)).term).toBe(term + 1)
      await fleet.stop()
      const lives = await fleet.lives()
      expect(findViolations(lives, fleet.guard, ['TIMEOUT', 'BACKEND_UNAVAILABLE'])).toEqual([])
      expect(beliefsOf(lives).length).toBeGreaterThanOrEqual(2)
    },
  )

  test.concurrent(
    'a fleet keeps its leader when an etcd member that clients still reach is cut off from the others',
    options,
    async (context) => {
      const { cluster, fleet, leader } = await openScene(context, patient)
      const { term } = leader
      const cutOff = await cluster.leader()
      const call = { signal: new AbortController().signal, timeoutMs: 2_000 }
      const alone = etcdStore({ endpoints: cutOff.url })
      const before = await alone.read('jobs', call)
      cluster.isolate(cutOff)
      await leader.until('renewed', 3)
      // The member has its own copy of the data, but does not answer from it.
      await expect(alone.read('jobs', call)).rejects.toMatchObject({ retryable: true })
      await vi.waitUntil(async () => (await cluster.leader()).id !== cutOff.id, { timeout: 20_000, interval: 50 })
      await leader.until('renewed', 2)
      cluster.join()
      const after = await vi.waitUntil(() => alone.read('jobs', call).catch(() => undefined), { timeout: 20_000 })
      const revisionOf = (version = '0') => BigInt(version.split('-')[0] ?? '0')
      expect(revisionOf(after.version)).toBeGreaterThan(revisionOf(before?.version))
      expect({ leads: leader.term, term: after.term }).toEqual({ leads: term, term })
      await fleet.stop()
      expect(findViolations(await fleet.lives(), fleet.guard, ['TIMEOUT', 'BACKEND_UNAVAILABLE'])).toEqual([])
    },
  )
})
