import { test } from 'vitest'
import { explorations } from '../../../../scripts/explorations.js'
import { expectCovered } from './expect-covered.ts'

const own = explorations.filter(({ by }) => by === 'npm run test:all')

test.each(own)('the model checker finds no violation in: $name', { timeout: 900_000 }, expectCovered)
