import { expect, test } from 'vitest'
import { expectSpecOnlyExplorationFinds } from '../simulation/spec-only/find-mutant.ts'
import { exploreSpecOnly } from '../simulation/spec-only/index.ts'
import { specOnlyMutants, specOnlyMutantStates } from '../simulation/spec-only/mutants.ts'

test.each(specOnlyMutants)(
  'the model checker detects a relay that would $name',
  { timeout: 600_000 },
  expectSpecOnlyExplorationFinds,
)

const circumstances = [...new Set(specOnlyMutants.map((mutant) => JSON.stringify(mutant.in)))]

test.each(circumstances)(
  'the model checker finds no violation in the real relay for spec-only candidates with the options %s',
  { timeout: 600_000 },
  async (options) => {
    const { violation, story } = await exploreSpecOnly({ ...JSON.parse(options), states: specOnlyMutantStates })
    expect(violation?.what, story.join('\n')).toBeUndefined()
  },
)
