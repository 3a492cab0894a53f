import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { call, claim, openStore, temporaryDirectory } from './fixtures.ts'

test.skipIf(process.platform === 'win32').each(['jobs.json', 'jobs.json.term', 'jobs.json.lock'])(
  'acquire does not block on a pipe that someone planted as %s',
  async (name) => {
    const directory = await temporaryDirectory()
    execFileSync('mkfifo', [join(directory, name)])
    const store = openStore({ directory })
    await expect(store.acquire(claim(), call())).rejects.toMatchObject({ code: 'RECORD_INVALID' })
  },
)
