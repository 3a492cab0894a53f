import { setTimeout as delay } from 'node:timers/promises'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { etcd, etcd36, removeKeys } from '../../../../../test/servers/etcd.ts'
import { describeWith } from '../../../../../test/servers/suite.ts'
import { storeConformance } from '../../../../testing/src/conformance/index.ts'
import { Elector } from '../../../src/engine/elector.ts'
import { etcdStore } from '../../../src/stores/etcd/index.ts'
import { checks } from '../../clients/etcd/checks.ts'
import { startRecordingProxy } from '../../clients/etcd/recording-proxy.ts'

for (const kind of [etcd, etcd36]) {
  describeWith(kind, `etcdStore on ${kind.name}`, (server) => {
    const open = () => etcdStore({ endpoints: server().url })

    describe('etcdStore conforms', () => {
      const cases = storeConformance(
        () => ({
          store: open(),
          open,
          remove: (election) => removeKeys(server(), `tenure/${encodeURIComponent(election)}/record`),
        }),
        { leaseDurationMs: 1_000 },
      )
      for (const { name, run } of cases) test.concurrent(name, run)
    })

    for (const [name, check] of Object.entries(checks)) {
      test(name, () => {
        const { url } = server()
        return check({ url, open: (options) => etcdStore({ endpoints: url, ...options }) })
      })
    }

    test('a leader sends one request per renewal, and a standby at most one per lease', async () => {
      // Long enough that a busy machine does not cost the leader its lease.
      const leaseDurationMs = 4_000
      const leases = 2
      const fronts = await Promise.all(['leader', 'standby'].map(() => startRecordingProxy(server().url)))
      const electors = fronts.map(({ url }, index) => {
        const store = etcdStore({ endpoints: url })
        const identity = `node-${index}`
        return new Elector({ store, election: 'load', identity, leaseDurationMs, renewIntervalMs: 800 })
      })
      onTestFinished(async () => void (await Promise.all(electors.map((elector) => elector.stop()))))
      const [leader, standby] = electors
      leader?.start()
      const { signal } = (await leader?.waitForLeadership()) ?? {}
      standby?.start()
      await vi.waitUntil(() => standby?.leader()?.holder === 'node-0', { timeout: 10_000 })
      for (const { asked } of fronts) asked.length = 0
      await delay(leases * leaseDurationMs)
      expect(signal?.aborted).toBe(false)
      const [ofLeader = [], ofStandby = []] = fronts.map(({ asked }) => asked)
      expect(new Set(ofLeader)).toEqual(new Set(['/v3/kv/txn']))
      expect(ofLeader.length).toBeLessThanOrEqual((leases * leaseDurationMs) / 800 + 1)
      expect(ofStandby.length).toBeLessThanOrEqual(leases + 1)
    })
  })
}
