import { expect } from 'vitest'
import type { Measured } from './flood-scene.ts'

/** Checks that an attack affected only the attacker. */
export function expectUnaffected({ honest, survived, peakRssMb, starved }: Omit<Measured, 'metrics'>): void {
  expect(survived).toBe(true)
  expect(peakRssMb ?? 0).toBeLessThan(400)
  for (const { leasesLost, statuses, p99Ms, bareP99Ms } of honest) {
    expect(leasesLost).toBe(0)
    // The service refuses only the client that caused the load.
    expect(Object.keys(statuses)).toEqual(['200'])
    // The bound depends on how busy the machine is, both for a server that sleeps and for one that works.
    expect(p99Ms).toBeLessThan((250 + 20 * bareP99Ms) / (1 - starved))
  }
}
