import { expect, test } from 'vitest'
import { simulate } from '../../src/simulation/index.ts'
import { expectSimulatorFinds } from './find-engine-mutant.ts'
import { expectExplorationDetects } from './find-explored-mutant.ts'
import { guardMutants } from './guard-mutants.ts'

test.each(guardMutants)('the simulator detects the guard mutant: $name', { timeout: 300_000 }, expectSimulatorFinds)

test.each(guardMutants.filter(({ explored }) => explored))(
  'the model checker detects the guard mutant: $name',
  { timeout: 300_000 },
  (mutant) => expectExplorationDetects(mutant, mutant.explored),
)

test.each(guardMutants)(
  'the simulator reports no violation in the real guard with the options of the mutant "$name"',
  { timeout: 120_000 },
  async ({ in: options }) => {
    for (let seed = 1; seed <= 4; seed += 1) {
      const report = await simulate({ faultEveryMs: 25_000, ...options, seed })
      expect(report.ok, String(report)).toBe(true)
    }
  },
)
