import { describe, expect, test } from 'vitest'
import { jobMutants } from '../../../../test/jobs/mutants.ts'
import { loadMutant } from '../../../../test/mutants/mutant.ts'
import * as library from '../../src/jobs/index.ts'
import { runVirtualFleet } from './virtual-fleet.ts'

const seeds = Array.from({ length: 4 }, (_, index) => index + 1)

describe('a fleet whose processes are killed and paused in virtual time', () => {
  test.each(seeds)('a fleet neither repeats, overlaps, nor skips a scheduled time (seed %i)', async (seed) => {
    const verdict = await runVirtualFleet(library, { seed, times: 40 })
    expect(verdict.violations).toEqual([])
    expect(verdict.ran).toBeGreaterThan(100)
    expect(verdict.lostInTheMiddle).toBeGreaterThan(0)
  })

  test.each(seeds)(
    'a fleet with a shared leader neither repeats nor skips a scheduled time (seed %i)',
    async (seed) => {
      const verdict = await runVirtualFleet(library, { seed, times: 40, sharedLeader: 'all' })
      expect(verdict.violations).toEqual([])
      expect(verdict.ran).toBeGreaterThan(100)
      expect(verdict.lostInTheMiddle).toBeGreaterThan(0)
    },
  )

  test.each(seeds)(
    'a fleet runs no scheduled time twice when its wall clocks are hours apart and jump (seed %i)',
    async (seed) => {
      const verdict = await runVirtualFleet(library, { seed, times: 40, hasWrongClocks: true })
      expect(verdict.violations).toEqual([])
    },
  )
})

test.each(jobMutants)('the virtual fleet catches a mutant that would $name', { timeout: 60_000 }, async (mutant) => {
  const { jobs } = await loadMutant<{ jobs: typeof library }>(mutant, { jobs: 'jobs/index.ts' })
  const found: string[] = []
  for (let seed = 1; seed <= 30 && found.length === 0; seed += 1) {
    const { sharedLeader } = mutant
    const hasWrongClocks = mutant.aheadMs !== undefined
    const verdict = await runVirtualFleet(jobs, { seed, times: 40, hasWrongClocks, sharedLeader })
    found.push(...verdict.violations)
  }
  expect(found.join('\n')).toMatch(mutant.says)
})
