import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished, vi } from 'vitest'

/** A folder that is removed after the test. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'tenure-cli-'))
  // A command whose terminal was closed may still be giving its lease back. Node's own retries do not list what came.
  const remove = () => rmSync(folder, { recursive: true, force: true })
  onTestFinished(() => vi.waitFor(remove, { timeout: 20_000, interval: 100 }), 25_000)
  return folder
}
