import { test } from 'vitest'
import { explorations } from '../../../../scripts/explorations.js'
import { expectCovered } from '../simulation/expect-covered.ts'

const own = explorations.filter(({ by }) => by === 'npm run test:all')

test.each(own)('every behaviour is sound: $name', { timeout: 900_000 }, expectCovered)
