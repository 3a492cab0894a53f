import { expect } from 'vitest'
import { loadMutant } from '../../../../../test/mutants/mutant.ts'
import { mutantStates, type AppenderMutant } from './mutants.ts'

/** Explores an appender with a mutation. The mutant must break a rule. */
export async function expectAppenderExplorationFinds(mutation: AppenderMutant): Promise<void> {
  const { exploration } = await loadMutant<{ exploration: typeof import('./index.ts') }>(mutation, {
    exploration: '../../service/test/simulation/appender/index.ts',
  })
  const { violation, states, story } = await exploration.exploreAppender({ ...mutation.in, states: mutantStates })
  if (process.env['MUTANTS_VERBOSE']) console.log(mutation.name, states, violation?.what, story)
  expect(violation?.what ?? 'no rule is broken', `"${mutation.name}" survived ${states} states`).toMatch(/^W\d: /)
}
