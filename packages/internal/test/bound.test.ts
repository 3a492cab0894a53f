import { expect, test } from 'vitest'
import { loadMutant } from '../../../test/mutants/mutant.ts'
import { passes } from '../../../test/mutants/passes-check.ts'
import * as real from '../src/bound.ts'
import { boundChecks } from './bound-checks.ts'
import { boundMutants } from './bound-mutants.ts'

const checks = Object.entries(boundChecks)

test.each(checks)('%s', (_, check) => check(real))

test.each(boundMutants)('a check of call deadlines detects the mutant "$name"', async (mutant) => {
  const check = boundChecks[mutant.caughtBy] ?? expect.fail(`There is no check "${mutant.caughtBy}".`)
  const { bound } = await loadMutant<{ bound: typeof real }>(mutant, { bound: '../../internal/src/bound.ts' })
  expect(await passes(() => check(bound))).toBe(false)
})
