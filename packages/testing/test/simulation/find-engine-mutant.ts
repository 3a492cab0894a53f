import { expect } from 'vitest'
import { loadMutant } from '../../../../test/mutants/mutant.ts'
import type { EngineMutant } from './engine-mutants.ts'

/** The simulator must detect every mutant within this many fleets of one hour. */
const seeds = 150

/** Simulates a mutant of the engine until it breaks an invariant, and fails if it never does. */
export async function expectSimulatorFinds(mutation: EngineMutant): Promise<void> {
  const { simulation } = await loadMutant<{ simulation: typeof import('../../src/simulation/index.ts') }>(mutation, {
    simulation: '@tenure/testing/simulation',
  })
  const violations: string[] = []
  for (let seed = 1; seed <= seeds && violations.length === 0; seed += 1) {
    const report = await simulation.simulate({ faultEveryMs: 25_000, ...mutation.in, seed })
    violations.push(...report.violations)
    if (process.env['MUTANTS_VERBOSE'] && !report.ok) console.log(mutation.name, 'seed', seed, report.violations[0])
  }
  expect(violations, `the simulator did not detect "${mutation.name}" in ${seeds} fleets`).not.toEqual([])
}
