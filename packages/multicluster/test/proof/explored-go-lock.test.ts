import { test } from 'vitest'
import {
  expectLockCovered,
  expectLockMistakeFound,
  lockExplorations,
  lockMutants,
} from '../simulation/go-lock/explorations.ts'

const own = lockExplorations.filter(({ by }) => by === 'npm run test:all')

test.each(own)('every behavior of the Go lock is sound: $name', { timeout: 900_000 }, expectLockCovered)

test.each(lockMutants)('exploration finds the Go lock that would $name', { timeout: 600_000 }, expectLockMistakeFound)
