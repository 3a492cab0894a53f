import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, describe } from 'vitest'
import { memoryStore } from '../../../src/index.ts'
import { fileStore } from '../../../src/stores/file/index.ts'
import { openStore } from '../../../src/stores/index.ts'
import { presenceSuite } from './store-suite.ts'

describe.concurrent('presence on stores of this machine', () => {
  const memory = memoryStore()
  presenceSuite('a memory store', () => memory)

  const directory = mkdtempSync(join(tmpdir(), 'tenure-members-'))
  afterAll(() => rmSync(directory, { recursive: true, force: true }))
  presenceSuite('a file store', () => fileStore({ directory }))

  const database = pathToFileURL(join(directory, 'leases.db')).href.replace('file:', 'sqlite:')
  presenceSuite('a SQLite store', () => openStore(database))
})
