import { expect, test } from 'vitest'
import { expectReplicasFind } from '../simulation/find-replica-mutant.ts'
import { simulateReplicas } from '../simulation/index.ts'
import { replicaMutants } from '../simulation/replica-mutants.ts'

test.each(replicaMutants)('the simulation finds the mutant "$name"', { timeout: 300_000 }, expectReplicasFind)

test.each(replicaMutants)(
  'the simulation reports no violation of the real replicas with the options of "$name"',
  { timeout: 300_000 },
  async (mutation) => {
    for (const seed of [1, 2, 3, 4, 5]) {
      const report = await simulateReplicas({ faultEveryMs: 3_000, ...mutation.in, seed })
      expect(report.ok, String(report)).toBe(true)
    }
  },
)
