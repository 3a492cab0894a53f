import { expect } from 'vitest'
import { loadMutant } from '../../../../test/mutants/mutant.ts'
import { exploredMutants, mutants, mutantStates } from './explored-mutants.ts'

/** Lets `explore()` run an engine with a mistake in it until it breaks a rule, which it must, and tells the way there. */
export async function expectExplorationFinds(name: string): Promise<void> {
  const mutation = mutants.find((mutant) => mutant.name === name) ?? expect.unreachable(`no mutant "${name}"`)
  const { simulation } = await loadMutant<{ simulation: typeof import('../../src/simulation/index.ts') }>(mutation, {
    simulation: 'simulation/index.ts',
  })
  const options = { seconds: 600, states: mutantStates, ...exploredMutants[name] }
  const report = await simulation.explore(options)
  if (process.env['MUTANTS_VERBOSE']) console.log(name, report.states, report.violation?.what)
  expect(report.violation?.what, `"${name}" survived ${report.states} states`).toMatch(/^I\d+: /)
  expect(simulation.retrace(options, report.violation?.trace ?? [])).toBe(report.violation?.story)
}
