import { describe, expect, test } from 'vitest'
import { loadMutant } from '../mutants/mutate.ts'
import { engineMutants } from './engine-mutants.ts'

/** The simulator must find every planted mistake within so many fleets of one hour. */
const seeds = 150

describe('the simulator finds the mutant that would', () => {
  test.each(engineMutants)('$name', { timeout: 300_000 }, async (mutation) => {
    const mutant = await loadMutant(mutation)
    try {
      const { simulate } = await mutant.load<typeof import('../../src/simulation/index.ts')>('simulation/index.ts')
      const violations: string[] = []
      for (let seed = 1; seed <= seeds && violations.length === 0; seed += 1) {
        const report = await simulate({ faultEveryMs: 25_000, ...mutation.in, seed })
        violations.push(...report.violations)
        if (process.env['MUTANTS_VERBOSE'] && !report.ok) console.log(mutation.name, 'seed', seed, report.violations[0])
      }
      expect(violations, `"${mutation.name}" survived ${seeds} fleets`).not.toEqual([])
    } finally {
      await mutant.remove()
    }
  })
})
