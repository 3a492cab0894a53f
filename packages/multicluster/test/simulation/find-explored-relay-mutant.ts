import { expect } from 'vitest'
import { loadMutant } from '../../../../test/mutants/mutant.ts'
import { relayMutantStates, type ExploredRelayMutant } from './explored-relay-mutants.ts'

/**
 * Explores a mutant of the relay until it breaks a rule, and fails if it never does. Also checks that the trace can be
 * replayed.
 */
export async function expectRelaysExplorationFinds(mutation: ExploredRelayMutant): Promise<void> {
  const { explored } = await loadMutant<{ explored: typeof import('./explored-relays.ts') }>(mutation, {
    explored: '../../multicluster/test/simulation/explored-relays.ts',
  })
  const report = await explored.exploreRelays({ ...mutation.in, states: relayMutantStates })
  if (process.env['MUTANTS_VERBOSE']) console.log(mutation.name, report.states, report.violation?.what)
  expect(
    report.violation?.what,
    `the model checker did not detect "${mutation.name}" in ${report.states} states`,
  ).toMatch(/^I\d+: /)
  expect(explored.retraceRelays(mutation.in, report.violation?.trace ?? [])).toBe(report.violation?.story)
}
