import { expect, test } from 'vitest'
import { loadMutant } from '../../../../test/mutants/mutant.ts'
import { passes } from '../../../../test/mutants/passes-check.ts'
import { relayChecks } from '../relay-checks.ts'
import { expectClustersFind } from '../simulation/find-relay-mutant.ts'
import { simulateClusters } from '../simulation/index.ts'
import { checkedMutants, clustersMutants } from '../simulation/relay-mutants.ts'

test.each(clustersMutants)(
  'simulated clusters detect the relay mutant: $name',
  { timeout: 300_000 },
  expectClustersFind,
)

test.each(clustersMutants)(
  'simulated clusters find no violation in the real relay with the options of the mutant "$name"',
  { timeout: 300_000 },
  async (mutation) => {
    for (const seed of [1, 2, 3]) {
      const report = await simulateClusters({ minutes: 10, faultEveryMs: 20_000, ...mutation.in, seed })
      expect(report.ok, String(report)).toBe(true)
    }
  },
)

test.each(checkedMutants)('a check detects the relay mutant: $name', async (mutation) => {
  const { relay } = await loadMutant<{ relay: typeof import('../../src/relay/relay.ts') }>(mutation, {
    relay: '../../multicluster/src/relay/relay.ts',
  })
  const check = relayChecks[mutation.caughtBy] ?? expect.unreachable(`There is no check named "${mutation.caughtBy}".`)
  expect(await passes(() => check(relay))).toBe(false)
})
