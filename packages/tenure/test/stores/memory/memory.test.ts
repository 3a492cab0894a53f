import { describe, test } from 'vitest'
import { storeConformance } from '../../../../testing/src/conformance/index.ts'
import { memoryStore } from '../../../src/stores/memory/index.ts'
import { fakeClock } from '../../../../testing/src/index.ts'

describe('memoryStore', () => {
  const makeStore = () => {
    const clock = fakeClock()
    const store = memoryStore({ clock })
    return { store, pass: clock.advance, remove: store.delete }
  }
  for (const { name, run } of storeConformance(makeStore)) test(name, run)
})
