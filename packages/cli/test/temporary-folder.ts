import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished, vi } from 'vitest'

/** Creates a folder that is removed after the test. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'tenure-cli-'))
  // A command whose terminal was closed may still be releasing its lease. Node's own retries do not include files that
  // appear in the meantime.
  const remove = () => rmSync(folder, { recursive: true, force: true })
  onTestFinished(() => vi.waitFor(remove, { timeout: 20_000, interval: 100 }), 25_000)
  return folder
}
