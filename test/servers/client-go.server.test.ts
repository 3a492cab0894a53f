import { expect, onTestFinished, test } from 'vitest'
import { startClientGo, type ClientGo } from './client-go.ts'
import type { ApiServer } from './cluster.ts'
import { programs } from './programs.ts'
import { describeWithCluster } from './suite.ts'

const timings = { leaseDurationMs: 3_000, renewDeadlineMs: 2_000, retryPeriodMs: 400 }
const nowMs = () => Number(process.hrtime.bigint()) / 1e6

function candidate({ url, caFile, adminToken, namespace }: ApiServer, lease: string, identity: string): ClientGo {
  const peer = startClientGo({ server: url, caFile, token: adminToken, namespace, lease, identity, ...timings })
  onTestFinished(() => peer.stop())
  return peer
}

describeWithCluster(
  'a candidate of client-go',
  (cluster) => {
    test('a client-go candidate leads, releases on SIGTERM, and has a successor', async () => {
      const beforeMs = nowMs()
      const one = candidate(cluster(), 'clean', 'one')
      const started = await one.first('started')
      expect(started).toMatchObject({ identity: 'one', transitions: 0 })
      expect(started.monotonicMs).toBeGreaterThan(beforeMs)
      expect(started.monotonicMs).toBeLessThan(nowMs())

      const two = candidate(cluster(), 'clean', 'two')
      expect(await two.first('new-leader')).toMatchObject({ identity: 'one' })
      await one.kill('SIGTERM')
      const stopped = await one.first('stopped')
      const followed = await two.first('started')
      expect(followed.transitions).toBe(1)
      // The successor leads much earlier than the lease would have expired.
      expect(followed.monotonicMs - stopped.monotonicMs).toBeLessThan(timings.leaseDurationMs - timings.retryPeriodMs)
      await expect(one.first('started', { laterThanMs: stopped.monotonicMs })).rejects.toThrow(/one ended/)
    })

    test('a client-go candidate campaigns again after a long pause', async () => {
      const one = candidate(cluster(), 'paused', 'one')
      await one.first('started')
      const two = candidate(cluster(), 'paused', 'two')
      await two.first('new-leader')
      one.pause()
      await two.first('started')
      one.resume()
      const { monotonicMs: lostMs } = await one.first('stopped')
      await two.kill('SIGTERM')
      await one.first('started', { laterThanMs: lostMs })
      const seen = one.events.map(({ event }) => event).filter((event) => event !== 'new-leader')
      expect(seen).toEqual(['started', 'stopped', 'started'])
    })
  },
  { needs: [programs.clientGo] },
)
