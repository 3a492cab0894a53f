import { AssertionError } from 'node:assert'
import { expect, test } from 'vitest'
import { loadMutant } from '../../../../test/mutants/mutant.ts'
import { checks, moduleFiles, type Modules } from './checks.ts'
import { fairnessMutations } from './mutants.ts'

test.for(fairnessMutations)('the checks of fairness catch the mutant "$name"', async ({ by, ...mutation }) => {
  const modules = await loadMutant<Modules>({ ...mutation, package: 'service' }, moduleFiles)
  const check = checks.find(({ name }) => name === by)
  expect(check, by).toBeDefined()
  await expect(async () => check?.run(modules)).rejects.toThrow(AssertionError)
})
