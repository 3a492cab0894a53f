import { memoryStore } from 'tenure/stores'
import { storeConformance } from 'tenure/conformance'
import { fakeClock } from 'tenure/testing'
import { describe, expect, test } from 'vitest'
import { loadMutant, type Mutation } from '../../../../test/mutants/mutant.ts'
import { activeStore } from '../../src/storage/active-store.ts'
import { activeChecks } from './active-checks.ts'
import { MemoryStorage } from './memory-storage.ts'

test.each(activeChecks)('$name', ({ run }) => run(activeStore))

describe('leases beside a storage conform', () => {
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

/** Each must be noticed by the check that is named for it. */
const mutations: readonly (Mutation & { readonly by: string })[] = [
  {
    ...active,
    name: 'grant whatever the head’s term is',
    find: 'if (claim.afterTerm < term) {',
    replace: 'if (claim.afterTerm < 0) {',
    by: 'where no lease is known, a candidate that knows less than the head is refused, and learns its term',
  },
  {
    ...active,
    name: 'report the term of the leases alone',
    find: 'Math.max(term, outcome.highestTerm)',
    replace: 'outcome.highestTerm',
    by: 'a refusal shows the record, and the higher of its term and that of the head',
  },
  {
    ...active,
    name: 'refuse the same attempt once the head was swapped',
    find: 'if (record?.attempt !== claim.attempt) return',
    replace: 'if (record !== null) return',
    by: 'the same attempt gets its grant again, although the head has its term by now',
  },
  {
    ...active,
    name: 'go on with a call that was given up',
    find: 'await leases.acquire(claim, call)',
    replace: 'await leases.acquire(claim, { signal: new AbortController().signal })',
    also: [
      { file: active.file, find: 'await untilAborted(call.signal, storage.head())', replace: 'await storage.head()' },
    ],
    by: 'a call that is given up while the head is read is never sent',
  },
]

test.each(mutations)('leases with the mistake "$name" are found out', async ({ by, ...mutation }) => {
  const mutant = await loadMutant<{ active: typeof import('../../src/storage/active-store.ts') }>(mutation, {
    active: '../../service/src/storage/active-store.ts',
  })
  const check = activeChecks.find(({ name }) => name === by)
  expect(check, by).toBeDefined()
  await expect(check?.run(mutant.active.activeStore)).rejects.toThrow()
})
