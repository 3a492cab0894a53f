import { expect } from 'vitest'
import type { Measured } from './flood-scene.ts'

/** Checks that an attack has hurt nobody but whoever made it. */
export function expectUnhurt({ honest, survived, peakRssMb, starved }: Omit<Measured, 'metrics'>): void {
  expect(survived).toBe(true)
  expect(peakRssMb ?? 0).toBeLessThan(400)
  for (const { leasesLost, statuses, p99Ms, bareP99Ms } of honest) {
    expect(leasesLost).toBe(0)
    // Nobody is refused who did not cause it.
    expect(Object.keys(statuses)).toEqual(['200'])
    // How busy the machine is: for a server that sleeps, and for one that works.
    expect(p99Ms).toBeLessThan((250 + 20 * bareP99Ms) / (1 - starved))
  }
}
