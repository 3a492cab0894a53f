import { test } from 'vitest'
import { simulateFleetHours } from './fleet-hours.ts'
import { everydayFleetHours } from './everyday-share.ts'

test(`no invariant breaks in ${everydayFleetHours} fleet-hours`, { timeout: 360_000 }, async () => {
  await simulateFleetHours(1, everydayFleetHours)
})
