import { test } from 'vitest'
import { documentExplorations, expectDocumentCovered } from '../../simulation/document/explorations.ts'
import { expectDocumentExplorationFinds } from '../../simulation/document/find-mutant.ts'
import { documentMutants } from '../../simulation/document/mutants.ts'

const own = documentExplorations.filter(({ by }) => by === 'npm test')

test.each(own)('every behaviour is sound: $name', { timeout: 300_000 }, expectDocumentCovered)

test.each(documentMutants.slice(0, 2))(
  'exploration finds the relay that would $name',
  { timeout: 300_000 },
  expectDocumentExplorationFinds,
)
