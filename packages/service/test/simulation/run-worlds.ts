import { expect } from 'vitest'
import { simulateReplicas, type ReplicasReport } from './index.ts'

type Seen = Record<string, number>

/** Runs worlds with every kind of fault, and asserts that no invariant broke and that enough was covered. */
export async function runWorlds(firstSeed: number, worlds: number): Promise<void> {
  const seen: Seen = {}
  for (let seed = firstSeed; seed < firstSeed + worlds; seed += 1) {
    const report = await simulateReplicas({ seed })
    expect(report.ok, String(report)).toBe(true)
    add(seen, report)
  }
  // Worlds without these events would prove nothing about them.
  const least: Seen = {
    served: 10,
    servedFromCopy: 5,
    termsLost: 5,
    // Too few for a sample of 20 worlds.
    termsFenced: 0.04,
    termsSuperseded: 0.05,
    tailsLost: 0.1,
    fencedAppends: 0.5,
    cancelledCommits: 0.5,
    grants: 100,
    renewals: 500,
    refusals: 50,
    reads: 200,
    ends: 20,
  }
  for (const [name, each] of Object.entries(least)) {
    expect(seen[name], `${name} seen in ${worlds} worlds`).toBeGreaterThanOrEqual(Math.floor(each * worlds))
  }
}

function add(seen: Seen, { counts }: ReplicasReport): void {
  for (const [name, count] of Object.entries(counts)) seen[name] = (seen[name] ?? 0) + count
}
