import { describe, test } from 'vitest'
import { storeConformance } from '../../../../testing/src/conformance/index.ts'
import { memoryStore } from '../../../src/stores/memory/index.ts'

describe('memoryStore in real time', () => {
  for (const { name, run } of storeConformance(() => ({ store: memoryStore() }))) test.concurrent(name, run)
})
