import { expect, test } from 'vitest'
import { loadMutant } from '../../../../../test/mutants/mutant.ts'
import { passes } from '../../../../../test/mutants/passes-check.ts'
import { checks, libraryFiles, type Library } from './checks.ts'
import { guardMutations } from './mutants.ts'

test.each(guardMutations)('a check detects the guard mutant: $name', async (mutation) => {
  const library = await loadMutant<Library>(mutation, libraryFiles)
  expect(await passes(() => checks[mutation.caughtBy](library)), `${mutation.caughtBy} passes`).toBe(false)
})
