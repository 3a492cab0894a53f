import { describe, test } from 'vitest'
import { storeConformance } from '../../src/conformance/index.ts'
import { casStore } from '../../src/stores/cas.ts'
import { memoryStore } from '../../src/stores/memory.ts'
import { fakeClock } from '../../src/testing/index.ts'
import { CasMap } from './cas-map.ts'

describe('memoryStore', () => {
  const makeStore = () => {
    const clock = fakeClock()
    const store = memoryStore({ clock })
    return { store, pass: clock.advance, remove: store.delete }
  }
  for (const { name, run } of storeConformance(makeStore)) test(name, run)
})

describe('memoryStore in real time', () => {
  for (const { name, run } of storeConformance(() => ({ store: memoryStore() }))) test.concurrent(name, run)
})

describe.each([{ watch: true }, { watch: false }])('casStore over a map, watch: $watch', (options) => {
  const makeStore = () => {
    const clock = fakeClock()
    const map = new CasMap()
    return {
      store: casStore(map.backend(options), { clock }),
      open: () => casStore(map.backend(options), { clock }),
      remove: (election: string) => map.remove(election),
      forgetsTerms: true,
      pass: clock.advance,
    }
  }
  for (const { name, run } of storeConformance(makeStore)) test(name, run)
})
