import { expect, test } from 'vitest'
import { explore, simulate } from '../../src/simulation/index.ts'
import { mutantStates } from './explored-mutants.ts'
import { expectSimulatorFinds } from './find-engine-mutant.ts'
import { expectExplorationDetects } from './find-explored-mutant.ts'
import { preferenceMutants } from './preference-mutants.ts'

const simulated = preferenceMutants.filter(({ in: options }) => options)

test.each(preferenceMutants)('the model checker detects the preference mutant: $name', { timeout: 300_000 }, (mutant) =>
  expectExplorationDetects(mutant, mutant.explored),
)

test.each(simulated)('the simulator detects the preference mutant: $name', { timeout: 300_000 }, expectSimulatorFinds)

test.each(preferenceMutants)(
  'the model checker finds no violation in the real rules with the options of the mutant "$name"',
  { timeout: 300_000 },
  async ({ explored }) => {
    const report = await explore({ seconds: 300, states: mutantStates / 4, ...explored })
    expect(report.ok, String(report)).toBe(true)
  },
)

test.each(simulated)(
  'the simulator reports no violation in the real rules with the options of the mutant "$name"',
  { timeout: 120_000 },
  async ({ in: options }) => {
    for (let seed = 1; seed <= 4; seed += 1) {
      const report = await simulate({ ...options, seed })
      expect(report.ok, String(report)).toBe(true)
    }
  },
)
