import { expect } from 'vitest'
import { loadMutant } from '../../../../test/mutants/mutant.ts'
import type { ClustersMutant } from './relay-mutants.ts'

/** The simulation must detect every mutant within this many worlds. */
const seeds = 60

/** Simulates clusters with a mutant until an invariant breaks, and fails if none does. */
export async function expectClustersFind(mutation: ClustersMutant): Promise<void> {
  const { simulation } = await loadMutant<{ simulation: typeof import('./index.ts') }>(mutation, {
    simulation: '../../multicluster/test/simulation/index.ts',
  })
  const violations: string[] = []
  for (let seed = 1; seed <= seeds && violations.length === 0; seed += 1) {
    const report = await simulation.simulateClusters({ minutes: 10, faultEveryMs: 20_000, ...mutation.in, seed })
    violations.push(...report.violations)
    if (process.env['MUTANTS_VERBOSE'] && !report.ok) console.log(mutation.name, 'seed', seed, report.violations[0])
  }
  expect(violations, `the simulation did not detect "${mutation.name}" in ${seeds} worlds`).not.toEqual([])
}
