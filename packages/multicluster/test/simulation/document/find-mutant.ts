import { expect } from 'vitest'
import { loadMutant } from '../../../../../test/mutants/mutant.ts'
import { documentMutantStates, type DocumentMutant } from './mutants.ts'

/**
 * Explores a mutant of the code that serves spec-only candidates until it breaks a rule, and fails if it never does.
 */
export async function expectDocumentExplorationFinds(mutation: DocumentMutant): Promise<void> {
  const { exploration } = await loadMutant<{ exploration: typeof import('./index.ts') }>(mutation, {
    exploration: '../../multicluster/test/simulation/document/index.ts',
  })
  const { violation, states, story } = await exploration.exploreDocument({
    ...mutation.in,
    states: documentMutantStates,
  })
  if (process.env['MUTANTS_VERBOSE']) console.log(mutation.name, states, violation?.what, story)
  expect(violation?.what ?? 'no rule is broken', `"${mutation.name}" survived ${states} states`).toMatch(/^I\d+: /)
}
