import { expect, test } from 'vitest'
import { checkedJobMutants } from '../../../../test/jobs/mutants.ts'
import { loadMutant } from '../../../../test/mutants/mutant.ts'
import { passes } from '../../../../test/mutants/passes-check.ts'
import * as library from '../../src/jobs/index.ts'
import { checks } from './checks.ts'

test.each(Object.keys(checks))('%s', async (name) => {
  await checks[name]?.(library)
})

test.each(checkedJobMutants)('the checks catch a mutant that would $name', { timeout: 60_000 }, async (mutant) => {
  const { jobs } = await loadMutant<{ jobs: typeof library }>(mutant, { jobs: 'jobs/index.ts' })
  const check = checks[mutant.caughtBy] ?? expect.unreachable(`There is no check "${mutant.caughtBy}".`)
  expect(await passes(() => check(jobs))).toBe(false)
})
