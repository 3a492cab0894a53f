import { test } from 'vitest'
import {
  expectLockCovered,
  expectLockMistakeFound,
  lockExplorations,
  lockMutants,
} from '../simulation/go-lock/explorations.ts'

const own = lockExplorations.filter(({ by }) => by === 'npm run test:all')

test.each(own)('the model checker finds no violation of the Go lock in: $name', { timeout: 900_000 }, expectLockCovered)

test.each(lockMutants)(
  'the model checker detects a Go lock that would $name',
  { timeout: 600_000 },
  expectLockMistakeFound,
)
