import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { fileStore } from '../packages/tenure/src/stores/file/index.ts'
import { root } from './documents.ts'
import { pathOf, type Program } from './servers/find-program.ts'
import { programs } from './servers/programs.ts'
import type { RunningServer } from './servers/server.ts'
import { describeWithPrograms } from './servers/suite.ts'
import { serveOn } from './service/serve.ts'

/** A user's project with the built packages. */
const project = mkdtempSync(join(tmpdir(), 'tenure-runtimes-'))
mkdirSync(join(project, 'node_modules/@tenure'), { recursive: true })
symlinkSync(join(root, 'packages/tenure'), join(project, 'node_modules/tenure'))
symlinkSync(join(root, 'packages/testing'), join(project, 'node_modules/@tenure/testing'))
writeFileSync(join(project, 'package.json'), '{}\n')
cpSync(join(import.meta.dirname, 'runtimes'), project, { recursive: true })
afterAll(() => rmSync(project, { recursive: true }))

interface Runtime {
  readonly program: Program
  /** The arguments before the script. */
  readonly args?: readonly string[]
  /** Whether it also runs the service and the command line. */
  readonly isNode: boolean
}

const runtimes: Readonly<Record<string, Runtime>> = {
  'Node.js 20.19': { program: programs.node20, isNode: true },
  'Node.js 22': { program: programs.node22, isNode: true },
  'Node.js 24': { program: programs.node24, isNode: true },
  Bun: { program: programs.bun, isNode: false },
  Deno: { program: programs.deno, args: ['run', '--allow-all', '--no-lock'], isNode: false },
}

/** Runs a script of the project, and returns its output. Any output on standard error is a failure. */
async function run({ program, args = [] }: Runtime, script: string, ...values: string[]): Promise<unknown[]> {
  const all = [...args, join(project, script), ...values]
  const { stdout, stderr } = await promisify(execFile)(pathOf(program), all, { cwd: project, timeout: 25_000 })
  expect(stderr).toBe('')
  return stdout
    .trim()
    .split('\n')
    .map((line): unknown => JSON.parse(line))
}

describe.each(Object.entries(runtimes))('the library on %s', (name, runtime) => {
  describeWithPrograms([runtime.program], 'as a user has it', () => {
    let service: RunningServer
    beforeAll(async () => {
      service = await serveOn(runtime.isNode ? pathOf(runtime.program) : process.execPath)
    })
    afterAll(() => service.stop())

    const led = { first: 1, second: 2, checkpoint: 'of term 1', watched: true }
    const noFileStore = { code: 'LOCK_UNAVAILABLE', message: expect.stringContaining('does not work on Deno') }

    test('the library leads in memory, through files, and through a service, or says why it cannot', async () => {
      const files = pathToFileURL(mkdtempSync(join(project, 'leases-'))).href
      const told = await run(runtime, 'lead.mjs', 'memory:', files, service.url)
      expect(told).toEqual([led, name === 'Deno' ? noFileStore : led, led])
    })

    test('the library leads from a CommonJS module', async () => {
      expect(await run(runtime, 'require.cjs')).toEqual([{ term: 1 }])
    })

    if (name === 'Deno') return

    test('a killed leader is detected as dead at once', async () => {
      const directory = mkdtempSync(join(project, 'leases-'))
      const holder = spawn(pathOf(runtime.program), [join(project, 'hold.mjs'), directory], {
        cwd: project,
        stdio: ['ignore', 'pipe', 'inherit'],
      })
      const ended = once(holder, 'exit')
      const [term] = (await once(holder.stdout, 'data')) as [Buffer]
      expect(String(term)).toBe('1\n')
      const store = fileStore({ directory })
      const call = { signal: AbortSignal.timeout(20_000) }
      expect(await store.read('jobs', call)).toMatchObject({ term: 1, released: false })
      holder.kill('SIGKILL')
      await ended
      expect(await store.read('jobs', call)).toMatchObject({ term: 1, released: true })
      await store.close?.()
    })

    if (!runtime.isNode) return

    test('the command line runs on this runtime', async () => {
      const store = pathToFileURL(mkdtempSync(join(project, 'leases-'))).href
      const command = ['run', 'jobs', '--store', store, '--once', '--', 'sh', '-c', 'echo "term $TENURE_TERM"']
      const { stdout } = await promisify(execFile)(
        pathOf(runtime.program),
        [join(root, 'packages/cli/bin/tenure.js'), ...command],
        { timeout: 25_000 },
      )
      expect(stdout).toBe('term 1\n')
    })
  })
})
