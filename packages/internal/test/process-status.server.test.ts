import { execFileSync, spawnSync } from 'node:child_process'
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { rolldown } from 'rolldown'
import { describe, expect, onTestFinished, test } from 'vitest'
import { isRunning, processEntry } from '../src/process-status.ts'

/** Runs a program as another user, with a /proc that hides the processes of other users. */
const hidden = [
  '--mount',
  'sh',
  '-c',
  'mount -t proc -o hidepid=2 proc /proc && exec setpriv --reuid=64123 --regid=64123 --clear-groups "$@"',
  'sh',
]
const canHide = spawnSync('unshare', [...hidden, process.execPath, '--version']).status === 0

describe.runIf(process.platform === 'linux')('processEntry', () => {
  test('processEntry describes a running process', () => {
    const entry = processEntry(process.pid)
    expect(entry).toMatchObject({ id: process.pid, parent: process.ppid, startedAt: expect.stringMatching(/^\d+$/) })
    expect(entry && entry !== 'unknown' && isRunning(entry)).toBe(true)
  })

  test('processEntry returns undefined for a process that has exited', () => {
    const { pid } = spawnSync('true')
    expect(processEntry(pid)).toBeUndefined()
  })

  test.runIf(canHide)('processEntry does not report a process that /proc hides as gone', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'process-status-'))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    chmodSync(folder, 0o755)
    const file = join(folder, 'process-status.mjs')
    const built = await rolldown({ input: join(import.meta.dirname, '../src/process-status.ts'), platform: 'node' })
    await built.write({ file })
    await built.close()
    const script = `import(${JSON.stringify(file)}).then(({ processEntry }) => console.log(processEntry(${process.pid}), processEntry(2 ** 22 + 1)))`
    const answer = execFileSync('unshare', [...hidden, process.execPath, '-e', script], { encoding: 'utf8' })
    // No process has an id above the limit of the kernel.
    expect(answer).toBe('unknown undefined\n')
  })
})
