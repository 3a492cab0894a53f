import { expect } from 'vitest'
import { simulateClusters, type ClustersReport } from './index.ts'

type Seen = Record<string, number>

/**
 * Simulates worlds with all faults. Asserts that no invariant broke and that every kind of event occurred often enough.
 */
export async function runWorlds(firstSeed: number, worlds: number): Promise<void> {
  const seen: Seen = {}
  for (let seed = firstSeed; seed < firstSeed + worlds; seed += 1) {
    const report = await simulateClusters({ seed, minutes: 10 })
    expect(report.ok, String(report)).toBe(true)
    add(seen, report)
  }
  // Worlds without these events would prove nothing about them.
  const least: Seen = { clusters: 3, grants: 3, handovers: 2, expiries: 1, releases: 1, specOnlyElections: 0.5 }
  for (const [name, each] of Object.entries(least)) {
    expect(seen[name], `${name} in ${worlds} worlds`).toBeGreaterThanOrEqual(each * worlds)
  }
}

function add(seen: Seen, { counts, faults }: ClustersReport): void {
  for (const [name, count] of [...Object.entries(counts), ...Object.entries(faults)]) {
    seen[name] = (seen[name] ?? 0) + count
  }
}
