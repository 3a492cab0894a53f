import { expect, test } from 'vitest'
import { expectClustersFind } from '../simulation/find-relay-mutant.ts'
import { simulateClusters } from '../simulation/index.ts'
import { relayMutants } from '../simulation/relay-mutants.ts'

test.each(relayMutants)('the clusters find the mutant that would $name', { timeout: 300_000 }, expectClustersFind)

test.each(relayMutants)('and are silent where they find "$name"', { timeout: 300_000 }, async (mutation) => {
  for (const seed of [1, 2, 3]) {
    const report = await simulateClusters({ minutes: 10, faultEveryMs: 20_000, ...mutation.in, seed })
    expect(report.ok, String(report)).toBe(true)
  }
})
