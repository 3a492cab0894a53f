import { expect, test } from 'vitest'
import { loadMutant } from '../../../../../test/mutants/mutant.ts'
import { passes } from '../../../../../test/mutants/passes-check.ts'
import { checks, type Library } from './checks.ts'
import { handOverChecks } from './hand-over-checks.ts'
import { presenceMutations } from './mutants.ts'

test.each(presenceMutations)('a check detects the presence mutant: $name', async (mutation) => {
  const { library } = await loadMutant<{ library: Library }>(mutation, { library: 'index.ts' })
  const check =
    { ...checks, ...handOverChecks }[mutation.caughtBy] ??
    expect.unreachable(`There is no check named "${mutation.caughtBy}".`)
  expect(await passes(() => check(library)), `${mutation.caughtBy} passes`).toBe(false)
})
