import { expect, test } from 'vitest'
import { runWithFaults } from './random-faults.ts'
import { storeKinds } from './shard-fleet.ts'

const seeds = Array.from({ length: 20 }, (_, index) => index + 3)

test.each(storeKinds)('twenty runs with random faults keep S1 and S2, and settle (%s store)', async (kind) => {
  let grants = 0
  for (const seed of seeds) {
    const run = await runWithFaults(kind, seed).catch((error: unknown) => {
      throw new Error(`seed ${seed} on the ${kind} store`, { cause: error })
    })
    grants += run.grants
  }
  expect(grants).toBeGreaterThan(seeds.length * 10)
})
