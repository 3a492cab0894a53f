import { expect } from 'vitest'
import { loadMutant } from '../../../../test/mutants/mutant.ts'
import type { EngineMutant } from './engine-mutants.ts'

/** The simulator must find every planted mistake within so many fleets of one hour. */
const seeds = 150

/** Lets the simulator run an engine with a mistake in it until it breaks an invariant, which it must. */
export async function expectSimulatorFinds(mutation: EngineMutant): Promise<void> {
  const { simulation } = await loadMutant<{ simulation: typeof import('../../src/simulation/index.ts') }>(mutation, {
    simulation: 'simulation/index.ts',
  })
  const violations: string[] = []
  for (let seed = 1; seed <= seeds && violations.length === 0; seed += 1) {
    const report = await simulation.simulate({ faultEveryMs: 25_000, ...mutation.in, seed })
    violations.push(...report.violations)
    if (process.env['MUTANTS_VERBOSE'] && !report.ok) console.log(mutation.name, 'seed', seed, report.violations[0])
  }
  expect(violations, `"${mutation.name}" survived ${seeds} fleets`).not.toEqual([])
}
