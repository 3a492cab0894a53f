import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { leads, startTenure } from '../../bench/kubernetes-fleet.js'
import { RollingFleet, rollOut } from '../../bench/kubernetes-rolling.js'
import { describeWithCluster } from '../servers/suite.ts'
import { kubeConfigOf } from './kube-config.ts'

/** Old replicas wait for one retry interval, so on a busy machine a new replica has two seconds to take over. */
const timings = { leaseDurationMs: 10_000, renewDeadlineMs: 6_600, retryPeriodMs: 2_000 }

describeWithCluster('A rolling update of processes on one Lease', (cluster) => {
  test('leaders change once per rolling update when the new processes have a higher generation', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'tenure-rolling-'))
    const kubeConfig = join(folder, 'kubeconfig')
    writeFileSync(kubeConfig, kubeConfigOf(cluster()))
    const running: ReturnType<typeof start>[] = []
    const start = (identity: string, generation: number) => {
      const options = { ...timings, present: true, generation, maxMembers: 8 }
      return { generation, ...startTenure(kubeConfig, 'rolling-update', identity, options) }
    }
    const fleet = new RollingFleet((identity, generation) => {
      const replica = start(identity, generation)
      running.push(replica)
      return replica
    })
    onTestFinished(async () => {
      await fleet.end()
      rmSync(folder, { recursive: true })
    })
    for (let count = 0; count < 5; count += 1) await fleet.add()

    for (const generation of [2, 3]) {
      // Once a new replica leads, it stays, so there is nothing to wait for.
      const settle = async () => {
        const isWaiting = fleet.old.some(({ events }) => leads(events))
        const standbys = running.filter((one) => fleet.old.includes(one) && !leads(one.events))
        if (isWaiting) {
          await vi.waitUntil(
            async () => {
              const known = await Promise.all(standbys.map((standby) => standby.ask()))
              return known.every(({ newerGeneration }) => newerGeneration === generation)
            },
            { timeout: 40_000, interval: 200 },
          )
        }
      }
      const [round] = await rollOut([fleet], { strategy: 'stop-first', leaderPosition: 1, settle })
      const leader = running.find(({ events }) => leads(events))
      expect(leader?.generation).toBe(generation)
      expect(round?.changes).toBe(1)
      // It was a release, not an expiry.
      expect(round?.gapsMs.length).toBe(1)
      expect(Math.max(...(round?.gapsMs ?? []))).toBeLessThan(timings.leaseDurationMs / 2)
    }
  })
})
