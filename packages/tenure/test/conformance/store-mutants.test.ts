import { AssertionError } from 'node:assert'
import { describe, expect, test } from 'vitest'
import { storeConformance, type StoreUnderTest } from '../../src/conformance/index.ts'
import { memoryTtlStorage } from '../../src/stores/memory-ttl.ts'
import { fakeClock } from '../../src/testing/index.ts'
import { loadMutant, type Mutant } from '../mutants/mutate.ts'
import { CasMap } from './cas-map.ts'
import { storeMutations, type StoreMutation } from './store-mutants.ts'

describe('the conformance suite notices that', () => {
  test.for(storeMutations)('$name', async (mutation) => {
    const mutant = await loadMutant(mutation)
    try {
      const makeStore = await stores[mutation.store](mutant)
      const cases = storeConformance(makeStore, { patienceMs: 100 })
      const missed: string[] = []
      for (const name of mutation.caughtBy) {
        const one = cases.find((candidate) => candidate.name === name)
        if (!one) throw new Error(`The suite has no case "${name}".`)
        if (await passes(one.run)) missed.push(name)
      }
      expect(missed, `The mutant "${mutation.name}" survived these cases`).toEqual([])
    } finally {
      await mutant.remove()
    }
  })
})

// Only a failed check counts: a mutant that breaks in some other way shows nothing about the suite.
async function passes(run: () => Promise<void>): Promise<boolean> {
  try {
    await run()
    return true
  } catch (error) {
    if (error instanceof AssertionError) return false
    throw error
  }
}

const stores: Record<StoreMutation['store'], (mutant: Mutant) => Promise<() => StoreUnderTest>> = {
  async memory(mutant) {
    const { memoryStore } = await mutant.load<typeof import('../../src/stores/memory.ts')>('stores/memory.ts')
    return () => {
      const clock = fakeClock()
      const store = memoryStore({ clock })
      return { store, pass: clock.advance, remove: store.delete }
    }
  },
  async cas(mutant) {
    const { casStore } = await mutant.load<typeof import('../../src/stores/cas.ts')>('stores/cas.ts')
    return () => {
      const clock = fakeClock()
      const map = new CasMap()
      return {
        store: casStore(map.backend({ watch: true }), { clock }),
        pass: clock.advance,
        remove: (election) => map.remove(election),
      }
    }
  },
  async ttl(mutant) {
    const { ttlStore } = await mutant.load<typeof import('../../src/stores/ttl.ts')>('stores/ttl.ts')
    return () => {
      const clock = fakeClock()
      const storage = memoryTtlStorage<string, string>({ clock })
      return { store: ttlStore(storage, { clock }), open: () => ttlStore(storage, { clock }), pass: clock.advance }
    }
  },
}
