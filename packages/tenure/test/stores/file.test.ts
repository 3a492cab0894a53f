import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, test } from 'vitest'
import { storeConformance } from '../../src/conformance/index.ts'
import { LeaseFiles } from '../../src/stores/file/lease-files.ts'
import { fileStore } from '../../src/stores/file.ts'
import { manualClock } from '../conformance/manual-clock.ts'

describe('the file store conforms, on a clock of the test', () => {
  const cases = storeConformance(async () => {
    const directory = await mkdtemp(join(tmpdir(), 'tenure-'))
    const clock = manualClock()
    const store = fileStore({ directory, clock })
    const files = new LeaseFiles({ directory })
    return {
      store,
      pass: (ms) => clock.pass(ms),
      remove: (election) => rm(join(directory, files.fileName(election))),
      open: () => fileStore({ directory, clock }),
      close: async () => {
        await store.close?.()
        await rm(directory, { recursive: true })
      },
    }
  })
  for (const { name, run } of cases) test(name, run)
})

describe('the file store conforms, in real time', () => {
  const cases = storeConformance(async () => {
    const directory = await mkdtemp(join(tmpdir(), 'tenure-'))
    const store = fileStore({ directory })
    const files = new LeaseFiles({ directory })
    return {
      store,
      remove: (election) => rm(join(directory, files.fileName(election))),
      open: () => fileStore({ directory }),
      close: async () => {
        await store.close?.()
        await rm(directory, { recursive: true })
      },
    }
  })
  for (const { name, run } of cases) test(name, run)
})
