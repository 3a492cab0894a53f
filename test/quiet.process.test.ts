import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { busyMessage, isQuiet, measureQuietness } from '../bench/quiet.js'
import { busyExitCode, readOptions } from '../bench/report.js'
import { root } from './documents.ts'

/** Starts two programs for each core that never pause. */
async function keepBusy(): Promise<void> {
  const program = `process.stdout.write('.'); for (;;);`
  const busy: ChildProcess[] = []
  onTestFinished(() => busy.forEach((child) => child.kill('SIGKILL')))
  for (let count = 0; count < 2 * availableParallelism(); count++) {
    const child = spawn(process.execPath, ['-e', program], { stdio: ['ignore', 'pipe', 'ignore'] })
    busy.push(child)
    if (child.stdout) await once(child.stdout, 'data')
  }
}

test('a machine is busy while other programs use its cores', async () => {
  await keepBusy()
  const quietness = await measureQuietness(1_000)
  expect(quietness.bareLoopMs).toBeGreaterThan(0)
  expect(isQuiet(quietness)).toBe(false)
  expect(isQuiet({ ...quietness, freeShare: 0.97 })).toBe(true)
  expect(busyMessage({ ...quietness, freeShare: 0.4 })).toContain('got 40 % of the cores')
})

test('a benchmark neither measures nor writes for publication on a busy machine, and a dry run measures', async () => {
  await keepBusy()
  const folder = mkdtempSync(join(tmpdir(), 'tenure-bench-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const file = join(folder, 'results.json')
  const measure = (options: object) => {
    const program = `import { Report } from './bench/report.js'
      await Report.open(${JSON.stringify({ name: 'none', quick: false, ...options })})
      console.log('measured')`
    return spawnSync(process.execPath, ['--input-type=module', '-e', program], { cwd: root, encoding: 'utf8' })
  }
  expect(measure({ file, isPublished: true })).toMatchObject({
    status: busyExitCode,
    stdout: '',
    stderr: expect.stringContaining('add --dry-run to measure without writing'),
  })
  expect(existsSync(file)).toBe(false)
  expect(measure({ file: undefined, isPublished: false })).toMatchObject({ status: 0, stdout: 'measured\n' })
})

test('only a full run without options writes to the documentation', () => {
  const published = readOptions('stores', [])
  expect(published).toMatchObject({ isPublished: true, file: join(root, 'bench/stores-results.json') })
  expect(readOptions('stores', ['--dry-run'])).toMatchObject({ isPublished: false, file: undefined })
  expect(readOptions('stores', ['--quick'])).toMatchObject({ isPublished: false, file: undefined })
  expect(readOptions('stores', ['--results', 'a.json'])).toMatchObject({ isPublished: false, file: 'a.json' })
})
