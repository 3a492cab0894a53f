import { expect } from 'vitest'
import { simulate, type Counts } from '../../src/simulation/index.ts'

/**
 * Simulates one hour of a fleet with faults for each seed. Asserts that no invariant was violated and that every kind
 * of event occurred often enough.
 */
export async function simulateFleetHours(firstSeed: number, hours: number): Promise<void> {
  const seen: Partial<Counts> = {}
  for (let seed = firstSeed; seed < firstSeed + hours; seed += 1) {
    const report = await simulate({ seed })
    expect(report.ok, String(report)).toBe(true)
    for (const [name, count] of Object.entries(report.counts) as [keyof Counts, number][]) {
      seen[name] = (seen[name] ?? 0) + count
    }
  }
  // A run without these events would prove nothing about them.
  const least: Partial<Counts> = {
    handovers: 10 * hours,
    expiries: 3 * hours,
    releases: 3 * hours,
    fencedWrites: hours,
    unknownOutcomes: hours,
    unknownResolved: hours / 100,
    longPauses: hours / 10,
    sleeps: hours,
    crashes: hours,
    wallJumps: hours,
    vanished: hours / 10,
    superseded: hours / 10,
    gaps: hours / 100,
    lateWork: hours,
    lateRounds: hours / 2,
    clones: hours / 2,
    clonesNoticed: hours / 4,
    crashReleases: hours / 4,
    guardFaults: hours,
    handOvers: hours / 10,
    unfit: hours / 10,
    seats: Math.floor(hours / 50),
    newerGenerations: Math.floor(hours / 50),
    requests: Math.floor(hours / 125),
    requestsFollowed: Math.floor(hours / 500),
  }
  for (const [name, count] of Object.entries(least) as [keyof Counts, number][]) {
    expect(seen[name], `${name} in ${hours} fleet-hours`).toBeGreaterThanOrEqual(count)
  }
}
