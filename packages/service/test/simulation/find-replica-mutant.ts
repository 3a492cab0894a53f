import { expect } from 'vitest'
import { loadMutant } from '../../../../test/mutants/mutant.ts'
import type { ReplicaMutant } from './replica-mutants.ts'

/** The simulation must find every mutant within this many worlds. */
const seeds = 100

/** Runs replicas with a mutation. The mutant must break an invariant. */
export async function expectReplicasFind(mutation: ReplicaMutant): Promise<void> {
  const { simulation } = await loadMutant<{ simulation: typeof import('./index.ts') }>(mutation, {
    simulation: '../../service/test/simulation/index.ts',
  })
  const violations: string[] = []
  for (let seed = 1; seed <= seeds && violations.length === 0; seed += 1) {
    const report = await simulation.simulateReplicas({ faultEveryMs: 3_000, ...mutation.in, seed })
    violations.push(...report.violations)
    if (process.env['MUTANTS_VERBOSE'] && !report.ok) console.log(mutation.name, 'seed', seed, report.violations[0])
  }
  expect(violations, `"${mutation.name}" survived ${seeds} worlds`).not.toEqual([])
}
