import { test } from 'vitest'
import { documentExplorations, expectDocumentCovered } from '../simulation/document/explorations.ts'
import { expectDocumentExplorationFinds } from '../simulation/document/find-mutant.ts'
import { documentMutants } from '../simulation/document/mutants.ts'

const own = documentExplorations.filter(({ by }) => by === 'npm test')

test.each(own)(
  'the model checker finds no violation for spec-only candidates in: $name',
  { timeout: 300_000 },
  expectDocumentCovered,
)

test.each(documentMutants.slice(0, 2))(
  'the model checker detects a relay that would $name',
  { timeout: 300_000 },
  expectDocumentExplorationFinds,
)
