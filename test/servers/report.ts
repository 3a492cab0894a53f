import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Names the file to which each suite without its server adds a line. */
export const missingServersVariable = 'TENURE_MISSING_SERVERS'

/** Vitest calls this once before all tests, and what it returns after the summary. */
export default function setup(): () => void {
  const directory = mkdtempSync(join(tmpdir(), 'tenure-report-'))
  const file = join(directory, 'missing-servers')
  writeFileSync(file, '')
  process.env[missingServersVariable] = file
  return () => {
    const lines = new Set(readFileSync(file, 'utf8').split('\n').filter(Boolean))
    rmSync(directory, { recursive: true })
    if (lines.size === 0) return
    console.log(
      `\nNot tested for want of a server:\n${[...lines]
        .sort()
        .map((line) => `  ${line}\n`)
        .join('')}`,
    )
  }
}
