import { expect } from 'vitest'
import { loadMutant } from '../../../../../test/mutants/mutant.ts'
import { specOnlyMutantStates, type SpecOnlyMutant } from './mutants.ts'

/**
 * Explores a mutant of the code that serves spec-only candidates until it breaks a rule, and fails if it never does.
 */
export async function expectSpecOnlyExplorationFinds(mutation: SpecOnlyMutant): Promise<void> {
  const { exploration } = await loadMutant<{ exploration: typeof import('./index.ts') }>(mutation, {
    exploration: '../../multicluster/test/simulation/spec-only/index.ts',
  })
  const { violation, states, story } = await exploration.exploreSpecOnly({
    ...mutation.in,
    states: specOnlyMutantStates,
  })
  if (process.env['MUTANTS_VERBOSE']) console.log(mutation.name, states, violation?.what, story)
  expect(violation?.what ?? 'no rule is broken', `"${mutation.name}" survived ${states} states`).toMatch(/^I\d+: /)
}
