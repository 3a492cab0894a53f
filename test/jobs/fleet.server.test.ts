import { expect, test } from 'vitest'
import { runJobFleet } from './fleet.ts'
import { postgres } from '../servers/postgres.ts'
import { redis } from '../servers/redis.ts'
import { describeWith } from '../servers/suite.ts'

for (const kind of [postgres, redis]) {
  describeWith(
    kind,
    `three processes on ${kind.name} that are killed and paused through 200 slots of their jobs`,
    (server) => {
      test('three processes neither repeat, overlap, nor skip a slot', { timeout: 240_000 }, async () => {
        const report = await runJobFleet({ url: server().url, times: 200 })
        expect(report.violations, JSON.stringify(report)).toEqual([])
        expect(report.ran + report.lostBeforeBegin).toBeGreaterThanOrEqual(200)
        expect(report.kills + report.pauses).toBeGreaterThan(5)
        console.log(`${kind.name}: ${JSON.stringify(report)}`)
      })
    },
  )
}
