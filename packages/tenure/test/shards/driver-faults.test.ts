import { expect, test } from 'vitest'
import { runWithFaults } from './random-faults.ts'
import { storeKinds } from './shard-fleet.ts'

test.each(storeKinds)('random faults never give a shard two owners, and the fleet settles (%s store)', async (kind) => {
  let grants = 0
  for (const seed of [1, 2]) grants += (await runWithFaults(kind, seed)).grants
  // Otherwise the faults would have moved nothing.
  expect(grants).toBeGreaterThan(2 * 5)
})
