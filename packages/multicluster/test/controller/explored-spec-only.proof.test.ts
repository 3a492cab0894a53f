import { test } from 'vitest'
import { specOnlyExplorations, expectSpecOnlyCovered } from '../simulation/spec-only/explorations.ts'

const own = specOnlyExplorations.filter(({ by }) => by === 'npm run test:all')

test.each(own)(
  'the model checker finds no violation for spec-only candidates in: $name',
  { timeout: 900_000 },
  expectSpecOnlyCovered,
)
