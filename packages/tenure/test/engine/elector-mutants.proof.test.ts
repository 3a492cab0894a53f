import { expect, test } from 'vitest'
import { loadMutant } from '../../../../test/mutants/mutant.ts'
import { passes } from '../../../../test/mutants/passes-check.ts'
import { checks, type Library } from './elector/checks.ts'
import { electorMutations } from './elector/elector-mutants.ts'

test.each(electorMutations)('a check detects the elector mutant: $name', async (mutation) => {
  const { library } = await loadMutant<{ library: Library }>(mutation, { library: 'index.ts' })
  const check = checks[mutation.caughtBy] ?? expect.unreachable(`There is no check named "${mutation.caughtBy}".`)
  expect(await passes(() => check(library))).toBe(false)
})
