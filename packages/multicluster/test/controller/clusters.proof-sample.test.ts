import { expect, test } from 'vitest'
import { expectClustersFind } from '../simulation/find-relay-mutant.ts'
import { simulateClusters } from '../simulation/index.ts'
import { clustersMutants } from '../simulation/relay-mutants.ts'

test.each([2, 14, 27, 520])(
  'the simulated world of seed %i never has two leaders, and has a leader again after every fault',
  async (seed) => {
    const report = await simulateClusters({ seed, minutes: 8 })
    expect(report.ok, String(report)).toBe(true)
  },
)

test.each(clustersMutants.slice(0, 3))(
  'simulated clusters detect the relay mutant: $name',
  { timeout: 240_000 },
  expectClustersFind,
)
