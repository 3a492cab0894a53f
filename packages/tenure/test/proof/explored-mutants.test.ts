import { expect, test } from 'vitest'
import { explore } from '../../src/simulation/explore.ts'
import { exploredMutants, mutantStates } from '../simulation/explored-mutants.ts'
import { expectExplorationFinds } from '../simulation/find-explored-mutant.ts'

const names = Object.keys(exploredMutants)

test.each(names)('exploration finds the mutant that would %s', { timeout: 600_000 }, expectExplorationFinds)

const circumstances = [...new Set(Object.values(exploredMutants).map((options) => JSON.stringify(options)))]

test.each(circumstances)('is silent on the real engine in %s', { timeout: 600_000 }, async (options) => {
  const report = await explore({ seconds: 600, ...JSON.parse(options), states: mutantStates })
  expect(report.ok, String(report)).toBe(true)
})
