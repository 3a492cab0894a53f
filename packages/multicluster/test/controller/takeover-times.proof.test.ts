import { test } from 'vitest'
import { expectTakeoversInTime } from '../simulation/slow-takeovers.ts'

test.for([1, 2, 3])(
  'another cluster takes over within a lease and a second although messages overtake each other (seed %d)',
  { timeout: 300_000 },
  expectTakeoversInTime,
)
