import { expect, test } from 'vitest'
import { explore } from '../../src/simulation/explore.ts'
import { exploredMutants, mutants, mutantStates, unexploredMutants } from '../simulation/explored-mutants.ts'
import { expectExplorationFinds } from '../simulation/find-explored-mutant.ts'

const names = Object.keys(exploredMutants)

test('each mutant is found, or there is a reason why not', () => {
  const known = [...names, ...Object.keys(unexploredMutants)]
  expect(known.toSorted()).toEqual(mutants.map(({ name }) => name).toSorted())
})

test.each(names)('exploration finds the mutant: %s', { timeout: 600_000 }, expectExplorationFinds)

// With one fault the real engine is explored completely: explore.test.ts.
const twoFaults = Object.values(exploredMutants).filter(({ budget = 1 }) => budget > 1)
const circumstances = [...new Set(twoFaults.map((options) => JSON.stringify(options)))]

test.each(circumstances)('is silent on the real engine in %s', { timeout: 600_000 }, async (options) => {
  const report = await explore({ seconds: 600, states: mutantStates, ...JSON.parse(options) })
  expect(report.ok, String(report)).toBe(true)
})
