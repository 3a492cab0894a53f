import { expect } from 'vitest'
import { loadMutant } from '../../../../test/mutants/mutant.ts'
import { passes } from '../../../../test/mutants/passes-check.ts'
import { checks, ruleFiles, type Rules } from './checks.ts'
import { shardMutantStates, type ShardMutation } from './mutants.ts'

/** Runs the check that the mutant names, or explores it until it breaks a rule, and fails if neither finds it. */
export async function expectShardMutantFound(mutation: ShardMutation): Promise<void> {
  const { caughtBy } = mutation
  if (caughtBy) {
    const rules = await loadMutant<Rules>(mutation, ruleFiles)
    expect(await passes(async () => checks[caughtBy](rules)), `${caughtBy} passes`).toBe(false)
    return
  }
  const { exploration } = await loadMutant<{ exploration: typeof import('./explore/index.ts') }>(mutation, {
    exploration: '../test/shards/explore/index.ts',
  })
  const options = { faults: [], ...mutation.in, states: shardMutantStates }
  const { violation, states, story } = await exploration.exploreShards(options)
  if (process.env['MUTANTS_VERBOSE']) console.log(mutation.name, states, violation?.what, story)
  expect(violation?.what ?? 'no rule is broken', `"${mutation.name}" survived ${states} states`).toMatch(/^(S\d|rule)/)
}
