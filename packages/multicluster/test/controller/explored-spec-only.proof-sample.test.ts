import { test } from 'vitest'
import { specOnlyExplorations, expectSpecOnlyCovered } from '../simulation/spec-only/explorations.ts'
import { expectSpecOnlyExplorationFinds } from '../simulation/spec-only/find-mutant.ts'
import { specOnlyMutants } from '../simulation/spec-only/mutants.ts'

const own = specOnlyExplorations.filter(({ by }) => by === 'npm test')

test.each(own)(
  'the model checker finds no violation for spec-only candidates in: $name',
  { timeout: 300_000 },
  expectSpecOnlyCovered,
)

test.each(specOnlyMutants.slice(0, 2))(
  'the model checker detects a relay that would $name',
  { timeout: 300_000 },
  expectSpecOnlyExplorationFinds,
)
