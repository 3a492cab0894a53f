/** Tests that one client keeps renewing while another one takes as much capacity as it can get. */
import { test } from 'vitest'
import { expectUnaffected } from '../expect-unaffected.ts'
import { attacks, measure } from '../flood-scene.ts'

test.each(attacks)(
  'an honest client keeps its lease while another client attacks a service with a heap of 256 MB by "%s"',
  { timeout: 180_000 },
  async (attack) => {
    const { metrics: _, ...seen } = await measure(attack, { forMs: 4_000, heapMb: 256 })
    console.info(seen)
    expectUnaffected(seen)
  },
)
