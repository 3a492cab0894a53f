import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, test } from 'vitest'
import { pathOf } from '../../../../../test/servers/find-program.ts'
import { programs } from '../../../../../test/servers/programs.ts'
import { describeWithPrograms } from '../../../../../test/servers/suite.ts'

const script = join(import.meta.dirname, 'conform-node-sqlite.mjs')

describe.each(['node22', 'node24'] as const)('sqliteStore on the SQLite of %s', (name) => {
  describeWithPrograms([programs[name]], 'as Node.js has it', () => {
    test('sqliteStore conforms with a DatabaseSync and by URL', async () => {
      const { stdout } = await promisify(execFile)(pathOf(programs[name]), [script], { timeout: 50_000 })
      expect(stdout).toBe('{"passed":true}\n')
    })
  })
})
