import { AssertionError } from 'node:assert'
import { expect } from 'vitest'
import { loadMutant } from '../../../../test/mutants/mutant.ts'
import { storeConformance, type StoreUnderTest } from '../../src/conformance/index.ts'
import { simulatedSwap } from '../../src/simulation/simulated-swap.ts'
import { memoryTtlStorage } from '../../../tenure/src/store-kit/memory-ttl-storage.ts'
import { fakeClock } from '../../src/index.ts'
import { CasMap } from './cas-map.ts'
import type { StoreMutation } from './store-mutants.ts'

/** Runs the conformance cases that must fail for this mutant. */
export async function expectConformanceFinds(mutation: StoreMutation): Promise<void> {
  const library = await loadMutant<Library>(mutation, {
    memory: 'stores/memory/index.ts',
    cas: 'store-kit/cas-store.ts',
    swap: 'store-kit/compare-and-swap-store.ts',
    ttl: 'store-kit/ttl-store.ts',
  })
  const cases = storeConformance(stores[mutation.store](library), { patienceMs: 100 })
  const missed: string[] = []
  for (const name of mutation.caughtBy) {
    const one = cases.find((candidate) => candidate.name === name)
    if (!one) throw new Error(`The conformance suite has no case "${name}".`)
    if (await passes(one.run)) missed.push(name)
  }
  expect(missed, `These cases did not detect the mutant "${mutation.name}"`).toEqual([])
}

// Only a failed check counts. A mutant that breaks in another way proves nothing about the suite.
async function passes(run: () => Promise<void>): Promise<boolean> {
  try {
    await run()
    return true
  } catch (error) {
    if (error instanceof AssertionError) return false
    throw error
  }
}

/** Every store that has mutants. */
interface Library {
  readonly memory: typeof import('../../../tenure/src/stores/memory/index.ts')
  readonly cas: typeof import('../../../tenure/src/store-kit/cas-store.ts')
  readonly swap: typeof import('../../../tenure/src/store-kit/compare-and-swap-store.ts')
  readonly ttl: typeof import('../../../tenure/src/store-kit/ttl-store.ts')
}

const stores: Record<StoreMutation['store'], (library: Library) => () => StoreUnderTest> = {
  memory({ memory }) {
    return () => {
      const clock = fakeClock()
      const store = memory.memoryStore({ clock })
      return { store, pass: clock.advance, remove: store.delete }
    }
  },
  cas: (library) => casOver(library, { hashes: false }),
  'cas-hashes': (library) => casOver(library, { hashes: true }),
  swap({ swap: { swapStore } }) {
    return () => {
      const clock = fakeClock()
      const server = simulatedSwap()
      const open = () => swapStore(server, clock)
      return { store: open(), open, pass: clock.advance, remove: (election) => server.delete(election) }
    }
  },
  ttl({ ttl: { ttlStore } }) {
    return () => {
      const clock = fakeClock()
      const storage = memoryTtlStorage<string, string>({ clock })
      return { store: ttlStore(storage, { clock }), open: () => ttlStore(storage, { clock }), pass: clock.advance }
    }
  },
}

function casOver({ cas }: Library, versions: { hashes: boolean }): () => StoreUnderTest {
  return () => {
    const clock = fakeClock()
    const map = new CasMap(versions)
    const open = () => cas.casStore(map.backend({ watch: true }), { clock })
    return {
      store: open(),
      open,
      pass: clock.advance,
      remove: (election) => map.remove(election),
      forgetsTerms: true,
    }
  }
}
