import { test } from 'vitest'
import { simulateFleetHours } from '../../simulation/fleet-hours.ts'
import { everydayFleetHours } from '../../simulation/share.ts'

test(`no invariant breaks in ${everydayFleetHours} fleet-hours`, { timeout: 120_000 }, async () => {
  await simulateFleetHours(1, everydayFleetHours)
})
