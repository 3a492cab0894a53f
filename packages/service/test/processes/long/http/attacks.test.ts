/** One client takes all that it can get. The renewals of another one go on. */
import { expect, test } from 'vitest'
import { attacks, measure } from '../../../flood-scene.ts'

test.each(attacks)(
  'an honest client keeps its lease while another one attacks a service with a heap of 256 MB by %s',
  { timeout: 180_000 },
  async (attack) => {
    const { metrics: _, ...seen } = await measure(attack, { forMs: 4_000, heapMb: 256 })
    console.info(seen)
    expect(seen).toMatchObject({ survived: true, leasesLost: 0 })
    // Nobody is refused who did not cause it.
    expect(Object.keys(seen.statuses)).toEqual(['200'])
    // The bare server shows how busy the machine is.
    expect(seen.p99Ms).toBeLessThan(250 + 20 * seen.bareP99Ms)
    expect(seen.peakRssMb ?? 0).toBeLessThan(400)
  },
)
