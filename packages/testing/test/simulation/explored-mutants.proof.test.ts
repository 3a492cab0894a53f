import { expect, test } from 'vitest'
import { explore } from '../../src/simulation/explore.ts'
import { exploredMutants, mutants, mutantStates, unexploredMutants } from './explored-mutants.ts'
import { expectExplorationFinds } from './find-explored-mutant.ts'

const names = Object.keys(exploredMutants)

test('every mutant is either detected by the model checker or has a documented reason why not', () => {
  const known = [...names, ...Object.keys(unexploredMutants)]
  expect(known.toSorted()).toEqual(mutants.map(({ name }) => name).toSorted())
})

test.each(names)('the model checker detects the mutant: %s', { timeout: 600_000 }, expectExplorationFinds)

// Only options with several faults: explore.test.ts already explores the real engine completely with one fault.
const twoFaults = Object.values(exploredMutants).filter(({ budget = 1 }) => budget > 1)
const circumstances = [...new Set(twoFaults.map((options) => JSON.stringify(options)))]

test.each(circumstances)(
  'the model checker finds no violation in the real engine with the options %s',
  { timeout: 600_000 },
  async (options) => {
    const report = await explore({ seconds: 600, states: mutantStates, ...JSON.parse(options) })
    expect(report.ok, String(report)).toBe(true)
  },
)
