import { test } from 'vitest'
import { documentExplorations, expectDocumentCovered } from '../simulation/document/explorations.ts'

const own = documentExplorations.filter(({ by }) => by === 'npm run test:all')

test.each(own)(
  'the model checker finds no violation for spec-only candidates in: $name',
  { timeout: 900_000 },
  expectDocumentCovered,
)
