import { memoryStore } from 'tenure'
import { storeConformance } from '@tenure/testing/conformance'
import { fakeClock } from '@tenure/testing'
import { describe, expect, test } from 'vitest'
import { loadMutant, type Mutation } from '../../../../test/mutants/mutant.ts'
import { activeStore } from '../../src/storage/active-store.ts'
import { activeChecks } from './active-store-checks.ts'
import { MemoryStorage } from './memory-storage.ts'

test.each(activeChecks)('$name', ({ run }) => run(activeStore))

describe('conformance of leases beside a storage', () => {
  const cases = storeConformance(() => {
    const clock = fakeClock()
    const leases = memoryStore({ clock })
    const storage = new MemoryStorage()
    return {
      store: activeStore(leases, storage),
      pass: (ms) => clock.advance(ms),
      open: () => activeStore(leases, storage),
    }
  })
  for (const { name, run } of cases) test(name, run)
})

const active = { package: 'service', file: 'storage/active-store.ts' } as const

/** The check named by `by` must catch the mutant. */
const mutations: readonly (Mutation & { readonly by: string })[] = [
  {
    ...active,
    name: 'a grant ignores the term of the head',
    find: 'if (claim.afterTerm < term) {',
    replace: 'if (claim.afterTerm < 0) {',
    by: 'a candidate that knows less than the head is refused and learns the term of the head when there is no lease',
  },
  {
    ...active,
    name: 'a refusal reports only the term of the leases',
    find: 'Math.max(term, outcome.highestTerm)',
    replace: 'outcome.highestTerm',
    by: 'a refusal shows the record and the higher of its term and the term of the head',
  },
  {
    ...active,
    name: 'a repeated attempt is refused once the head was swapped',
    find: 'if (record?.attempt !== claim.attempt) return',
    replace: 'if (record !== null) return',
    by: 'a repeated attempt gets its grant again after the head has its term',
  },
  {
    ...active,
    name: 'an aborted call continues',
    find: 'await leases.acquire(claim, call)',
    replace: 'await leases.acquire(claim, { signal: new AbortController().signal })',
    also: [
      { file: active.file, find: 'await untilAborted(call.signal, storage.head())', replace: 'await storage.head()' },
    ],
    by: 'a call that is aborted while the head is read is never sent',
  },
]

test.each(mutations)('the checks of the active store catch the mutant "$name"', async ({ by, ...mutation }) => {
  const mutant = await loadMutant<{ active: typeof import('../../src/storage/active-store.ts') }>(mutation, {
    active: '../../service/src/storage/active-store.ts',
  })
  const check = activeChecks.find(({ name }) => name === by)
  expect(check, by).toBeDefined()
  await expect(check?.run(mutant.active.activeStore)).rejects.toThrow()
})
