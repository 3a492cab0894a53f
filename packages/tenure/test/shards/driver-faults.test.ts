import { expect, test } from 'vitest'
import { driverScenes } from './driver-scenes.ts'
import { runWithFaults } from './random-faults.ts'
import { storeKinds } from './shard-fleet.ts'

test.each(storeKinds)('random faults never give a shard two owners, and the fleet settles (%s store)', async (kind) => {
  let grants = 0
  for (const seed of [1, 2]) grants += (await runWithFaults(kind, seed)).grants
  // Otherwise the faults would have moved nothing.
  expect(grants).toBeGreaterThan(2 * 5)
})

const { 'runs with random faults keep S1 and S2, and settle': _sampled, ...scenes } = driverScenes
test.each(Object.entries(scenes))('%s', async (_, play) => play())
