import { test } from 'vitest'
import { simulateFleetHours } from './fleet-hours.ts'

test('no invariant breaks in 500 fleet-hours, from seed 501', { timeout: 900_000 }, async () => {
  await simulateFleetHours(501, 500)
})
