import { expect, test } from 'vitest'
import { etcd } from '../servers/etcd.ts'
import { postgres } from '../servers/postgres.ts'
import { redis } from '../servers/redis.ts'
import type { RunningServer, ServerKind } from '../servers/server.ts'
import { describeWith } from '../servers/suite.ts'
import { longestFreeMs, runShardFleet } from './fleet.ts'

const stores: readonly [ServerKind, (server: RunningServer) => string][] = [
  [postgres, ({ url }) => url],
  [redis, ({ url }) => url],
  [etcd, ({ port }) => `etcd://127.0.0.1:${port}`],
]

for (const [kind, urlOf] of stores) {
  describeWith(kind, `shards on ${kind.name}`, (server) => {
    test('processes that are killed and paused never share a shard', { timeout: 400_000 }, async () => {
      const report = await runShardFleet(urlOf(server()))
      expect(report.violations).toEqual([])
      expect(report.longestFreeMs).toBeLessThan(longestFreeMs)
      console.log(`${kind.name}: ${JSON.stringify(report)}`)
    })
  })
}
