import { expect } from 'vitest'
import { loadMutant } from '../../../../test/mutants/mutant.ts'
import type { Mutation } from '../../../../test/mutants/mutant.ts'
import type { ExploreOptions } from '../../src/simulation/explore.ts'
import { exploredMutants, mutants, mutantStates } from './explored-mutants.ts'

/** Explores a mutant of the engine, by its name. */
export async function expectExplorationFinds(name: string): Promise<void> {
  const mutation = mutants.find((mutant) => mutant.name === name) ?? expect.unreachable(`there is no mutant "${name}"`)
  await expectExplorationDetects(mutation, exploredMutants[name])
}

/** Explores a mutant until it breaks a rule, and fails if it never does. Also checks that the trace can be replayed. */
export async function expectExplorationDetects(mutation: Mutation, revealedBy?: ExploreOptions): Promise<void> {
  const { name } = mutation
  const { simulation } = await loadMutant<{ simulation: typeof import('../../src/simulation/index.ts') }>(mutation, {
    simulation: '@tenure/testing/simulation',
  })
  const options = { seconds: 600, states: mutantStates, ...revealedBy }
  const report = await simulation.explore(options)
  if (process.env['MUTANTS_VERBOSE']) console.log(name, report.states, report.violation?.what)
  expect(report.violation?.what, `the model checker did not detect "${name}" in ${report.states} states`).toMatch(
    /^I\d+: /,
  )
  expect(simulation.retrace(options, report.violation?.trace ?? [])).toBe(report.violation?.story)
}
