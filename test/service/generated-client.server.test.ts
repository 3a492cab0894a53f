import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { root } from '../documents.ts'
import { pathOf } from '../servers/find-program.ts'
import { programs } from '../servers/programs.ts'
import { describeWithPrograms } from '../servers/suite.ts'
import { serve } from './serve.ts'

const takePart = join(root, 'test/service/generated-client/take-part.py')

describeWithPrograms([programs.openapiPython], 'a client in Python that is generated from the OpenAPI document', () => {
  test(
    'a Python client generated from the OpenAPI document is complete and campaigns, renews, watches, and resigns',
    { timeout: 120_000 },
    async () => {
      const service = await serve()
      onTestFinished(() => service.stop())
      const folder = mkdtempSync(join(tmpdir(), 'tenure-generated-'))
      onTestFinished(() => rmSync(folder, { recursive: true }))
      const python = (...args: string[]) => promisify(execFile)(pathOf(programs.openapiPython), args, { cwd: folder })
      // Otherwise the generator would look for a formatter.
      writeFileSync(join(folder, 'config.yml'), 'post_hooks: []\n')
      const target = join(folder, 'tenure_client')
      const from = ['--url', `${service.url}/openapi.json`, '--meta', 'none', '--output-path', target]
      const generate = ['generate', ...from, '--config', 'config.yml', '--fail-on-warning']
      await python('-m', 'openapi_python_client', ...generate)
      const { stdout } = await python(takePart, folder, service.url)
      const { modules, ...told } = JSON.parse(stdout) as { modules: number }
      expect(modules).toBeGreaterThan(40)
      expect(told).toEqual({
        won: [true, 'a', { zone: 'az-a' }],
        lost: [false, 'a'],
        first: ['STATE'],
        renewed: ['RenewAnswer', 30_000],
        refused: ['Failure', 'NOT_LEADER', 'a'],
        resigned: 'ResignAnswer',
        after: [['LEADER_LOST', 'resigned']],
        leader: null,
      })
    },
  )
})
