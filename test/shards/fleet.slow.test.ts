import { join } from 'node:path'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../../packages/cli/test/temporary-folder.ts'
import { longestFreeMs, runShardFleet } from './fleet.ts'

test('processes on files that are killed and paused never share a shard', { timeout: 400_000 }, async () => {
  const report = await runShardFleet(`file://${join(temporaryFolder(), 'leases')}`)
  expect(report.violations).toEqual([])
  expect(report.longestFreeMs).toBeLessThan(longestFreeMs)
  console.log(`files: ${JSON.stringify(report)}`)
})
