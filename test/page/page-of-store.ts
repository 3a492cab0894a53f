import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { LeaseStore } from 'tenure'
import { fileStore } from 'tenure/stores/file'
import { onTestFinished, vi } from 'vitest'
import { end } from '../servers/process.ts'

/** Starts `tenure page` on an empty store. */
export async function pageOfStore(): Promise<{ readonly url: string; readonly store: LeaseStore }> {
  const directory = mkdtempSync(join(tmpdir(), 'tenure-page-'))
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }))
  const command = join(import.meta.dirname, '../../packages/cli/bin/tenure.js')
  const child = spawn(process.execPath, [command, 'page', '--store', pathToFileURL(directory).href], {
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  onTestFinished(() => end(child, 'SIGKILL'))
  let printed = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => (printed += text))
  const url = await vi.waitUntil(() => /^http:\S+\n/.exec(printed)?.[0].trim(), { timeout: 20_000 })
  return { url, store: fileStore({ directory }) }
}
