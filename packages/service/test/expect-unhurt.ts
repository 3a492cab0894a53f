import { expect } from 'vitest'
import type { Measured } from './flood-scene.ts'

/** Checks that an attack has hurt nobody but whoever made it. */
export function expectUnhurt({ honest, survived, peakRssMb }: Omit<Measured, 'metrics'>): void {
  expect(survived).toBe(true)
  expect(peakRssMb ?? 0).toBeLessThan(400)
  for (const { leasesLost, statuses, p99Ms, bareP99Ms } of honest) {
    expect(leasesLost).toBe(0)
    // Nobody is refused who did not cause it.
    expect(Object.keys(statuses)).toEqual(['200'])
    // The bare server shows how busy the machine is.
    expect(p99Ms).toBeLessThan(250 + 20 * bareP99Ms)
  }
}
