import { expect, test } from 'vitest'
import { loadMutant } from '../../../../test/mutants/mutant.ts'
import { passes } from '../../../../test/mutants/passes-check.ts'
import { checks } from './checks.ts'
import { lockMutations } from './lock-mutants.ts'

test.each(lockMutations)('a check detects the lock mutant: $name', async (mutation) => {
  const { lock } = await loadMutant<{ lock: typeof import('../../src/multicluster/relayed-store.ts') }>(mutation, {
    lock: 'multicluster/relayed-store.ts',
  })
  const check = checks[mutation.caughtBy] ?? expect.unreachable(`There is no check named "${mutation.caughtBy}".`)
  expect(await passes(() => check(lock))).toBe(false)
})
