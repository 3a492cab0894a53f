import { test } from 'vitest'
import {
  expectLockCovered,
  expectLockMistakeFound,
  lockExplorations,
  lockMutants,
} from '../../simulation/go-lock/explorations.ts'

const own = lockExplorations.filter(({ by }) => by === 'npm test')

test.each(own)('every behavior of the Go lock is sound: $name', { timeout: 300_000 }, expectLockCovered)

test.each(lockMutants.slice(0, 1))(
  'exploration finds the Go lock that would $name',
  { timeout: 300_000 },
  expectLockMistakeFound,
)
