import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, vi } from 'vitest'

const examples = join(import.meta.dirname, '..', 'examples')

/** Creates a folder for an example's leases, separate from every other test. */
export function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'tenure-examples-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/** Starts an example in a folder. It is killed when the test ends. */
export function startExample(name: string, folder: string, env: Record<string, string> = {}) {
  const path = join(examples, name, 'main.mjs')
  const child = spawn(process.execPath, [path], { cwd: folder, env: { ...process.env, ...env } })
  onTestFinished(() => void child.kill('SIGKILL'))
  const exited = once(child, 'close')
  let text = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (chunk: string) => (text += chunk))
  }
  return {
    pid: child.pid,
    kill: (signal: NodeJS.Signals) => child.kill(signal),
    lines: () => text.split('\n').filter((line) => line !== ''),
    says: (line: string | RegExp) =>
      vi.waitUntil(
        () => text.split('\n').some((said) => (typeof line === 'string' ? said === line : line.test(said))),
        {
          timeout: 15_000,
          interval: 10,
        },
      ),
    async ends() {
      const [code, signal] = await exited
      expect({ code, signal }, text).toEqual({ code: 0, signal: null })
    },
  }
}
