import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { temporaryFolder } from '../../packages/cli/test/temporary-folder.ts'
import { runJobFleet } from './fleet.ts'
import { jobMutants } from './mutants.ts'
import { buildMutant } from '../mutants/mutant.ts'

const place = () => `file://${join(temporaryFolder(), 'leases')}`

describe('three processes on files that are killed and paused through 200 slots of their jobs', () => {
  test('three processes neither repeat, overlap, nor skip a slot', { timeout: 240_000 }, async () => {
    const report = await runJobFleet({ url: place(), times: 200 })
    expect(report.violations, JSON.stringify(report)).toEqual([])
    expect(report.ran + report.lostBeforeBegin).toBeGreaterThanOrEqual(200)
    expect(report.kills + report.pauses).toBeGreaterThan(5)
    console.log(`files: ${JSON.stringify(report)}`)
  })

  test(
    'three processes with a shared leader neither repeat, overlap, nor skip a slot',
    { timeout: 240_000 },
    async () => {
      const report = await runJobFleet({ url: place(), times: 96, sharedLeader: 'all-jobs' })
      expect(report.violations, JSON.stringify(report)).toEqual([])
      expect(report.ran + report.lostBeforeBegin).toBeGreaterThanOrEqual(96)
    },
  )
})

describe('a fleet with a mutant of the library', () => {
  test.each(jobMutants.filter(({ isVirtual }) => !isVirtual))(
    'a fleet detects the job mutant: $name',
    { timeout: 240_000 },
    async (mutant) => {
      const { find, replace, file, also = [], aheadMs, onlyPauses } = mutant
      const library = await buildMutant('tenure', [{ find, replace, file }, ...also])
      const isEnough = ({ violations }: { readonly violations: readonly string[] }) => violations.length > 0
      const circumstances = { onlyPauses, ...(aheadMs && { aheadMs }) }
      const { violations } = await runJobFleet({ url: place(), times: 400, library, isEnough, ...circumstances })
      expect(violations).not.toEqual([])
      expect(violations.join('\n')).toMatch(mutant.says)
    },
  )
})
