import { test } from 'vitest'
import {
  expectLockCovered,
  expectLockMistakeFound,
  lockExplorations,
  lockMutants,
} from '../simulation/go-lock/explorations.ts'

const own = lockExplorations.filter(({ by }) => by === 'npm test')

test.each(own)('the model checker finds no violation of the Go lock in: $name', { timeout: 300_000 }, expectLockCovered)

test.each(lockMutants.slice(0, 1))(
  'the model checker detects a Go lock that would $name',
  { timeout: 300_000 },
  expectLockMistakeFound,
)
