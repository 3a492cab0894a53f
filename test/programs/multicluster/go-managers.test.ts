/** Managers of controller-runtime that lead with the Go lock, in two clusters with two controllers each. */
import { setTimeout as delay } from 'node:timers/promises'
import { beforeAll, expect, test, vi, type TestContext } from 'vitest'
import { Random } from '../../../packages/tenure/src/simulation/random.ts'
import { Elector } from '../../../packages/tenure/src/elector.ts'
import { fromKubeConfig } from '../../../packages/tenure/src/kubernetes/index.ts'
import { multiclusterStore } from '../../../packages/tenure/src/stores/multicluster.ts'
import { nowMs, overlaps, type Belief } from '../../kubernetes/beliefs.ts'
import { startClusters, type Clusters, type Member } from '../../multicluster/clusters.ts'
import { clusterPrograms } from '../../servers/cluster.ts'
import { GoManager } from '../../servers/go-manager.ts'
import { programs } from '../../servers/programs.ts'
import { describeWithPrograms } from '../../servers/suite.ts'

/** As late a deadline as the rules allow: client-go believes for the whole lease after a confirmation. */
const timings = { leaseDurationMs: 3_000, renewDeadlineMs: 2_500, retryPeriodMs: 500 }
const soon = { timeout: 60_000, interval: 5 }

describeWithPrograms([...clusterPrograms, programs.goManager], 'managers of controller-runtime', () => {
  let clusters: Clusters

  beforeAll(async () => {
    clusters = await startClusters({ names: ['east', 'west'], controllers: 2 })
    return () => clusters.stop()
  })

  /** Two in each cluster. */
  const open = ({ onTestFinished }: TestContext, lease: string, more: Partial<typeof timings> = {}) => {
    const managers = clusters.members.flatMap(({ name, kubeConfig }) =>
      [0, 1].map(
        (index) =>
          new GoManager({
            kubeConfig: kubeConfig.candidate,
            lease,
            identity: `${name}-${index}`,
            timings: { ...timings, ...more },
          }),
      ),
    )
    onTestFinished(async ({ task }) => {
      await Promise.all(managers.map((manager) => manager.kill()))
      if (task.result?.state === 'fail') for (const { identity, log } of managers) console.log(identity, log)
    })
    for (const manager of managers) manager.start()
    return managers
  }
  const leaderOf = async (managers: readonly GoManager[], laterThanMs = -Infinity) => {
    const isNew = ({ beliefs }: GoManager) => (beliefs.at(-1)?.fromMs ?? -Infinity) > laterThanMs
    await vi.waitUntil(() => managers.some((manager) => manager.term !== undefined && isNew(manager)), soon)
    return managers.find((manager) => manager.term !== undefined && isNew(manager)) as GoManager
  }

  test('a standby leads within a fraction of the lease after a release, and within 1.3 leases after a crash', async (context) => {
    const releases = Number(process.env['TENURE_GO_RELEASES'] ?? 6)
    const leaseDurationMs = Number(process.env['TENURE_GO_LEASE_MS'] ?? timings.leaseDurationMs)
    const share = leaseDurationMs / 15_000
    const given = { leaseDurationMs, renewDeadlineMs: 10_000 * share, retryPeriodMs: 2_000 * share }
    const managers = open(context, 'handovers', given)
    const releasedMs: number[] = []
    for (let count = 0; count < releases; count++) {
      const leader = await leaderOf(managers)
      // After a change a standby sleeps for up to 2.2 retry periods, as client-go has it, and hears nothing.
      await delay(3.5 * given.retryPeriodMs)
      const before = leader.beliefs.at(-1) as Belief
      leader.release()
      await vi.waitUntil(() => before.toMs < Infinity, soon)
      const next = await leaderOf(managers, before.toMs)
      releasedMs.push((next.beliefs.at(-1) as Belief).fromMs - before.toMs)
    }
    const crashedLeases: number[] = []
    for (let count = 0; count < Math.max(2, releases / 10); count++) {
      const leader = await leaderOf(managers)
      await delay(3.5 * given.retryPeriodMs)
      const killedMs = nowMs()
      await leader.kill()
      const next = await leaderOf(managers, killedMs)
      crashedLeases.push(((next.beliefs.at(-1) as Belief).fromMs - killedMs) / leaseDurationMs)
      leader.start()
    }
    releasedMs.sort((a, b) => a - b)
    const at = (quantile: number) => Math.round(releasedMs[Math.ceil(quantile * releasedMs.length) - 1] ?? NaN)
    console.log(JSON.stringify({ leaseDurationMs, releases, p50: at(0.5), p99: at(0.99), crashedLeases }))
    expect(overlaps(managers.flatMap(({ beliefs }) => beliefs))).toEqual([])
    expect(at(0.99)).toBeLessThan(leaseDurationMs / 2)
    expect(Math.max(...crashedLeases)).toBeLessThan(1.6)
  }, 900_000)
})
