import { execFileSync } from 'node:child_process'
import { appendFileSync, existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { missingServersVariable } from '../servers/report.ts'

/** The library that moves a process's wall clock and leaves its monotonic clock alone; undefined if it is not to be had. */
export function findFaketime(): string | undefined {
  const found = process.env['TENURE_FAKETIME'] ?? search() ?? install()
  const report = process.env[missingServersVariable]
  if (!found && report) appendFileSync(report, 'chaos of wall clocks needs libfaketime: apt-get install libfaketime\n')
  return found
}

/** The environment of a process whose wall clock is what the file says, such as `+3600`: an hour ahead. */
export function faketimeEnvironment(library: string, file: string): Record<string, string> {
  return {
    LD_PRELOAD: library,
    FAKETIME_TIMESTAMP_FILE: file,
    FAKETIME_DONT_FAKE_MONOTONIC: '1',
    FAKETIME_NO_CACHE: '1',
  }
}

function search(): string | undefined {
  if (process.platform !== 'linux') return undefined
  const folders = readdirSync('/usr/lib').map((name) => join('/usr/lib', name, 'faketime'))
  return folders.map((folder) => join(folder, 'libfaketimeMT.so.1')).find((path) => existsSync(path))
}

function install(): string | undefined {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return undefined
  const command = 'apt-get update && apt-get install -y --no-install-recommends libfaketime'
  try {
    execFileSync('sh', ['-c', command], { stdio: 'pipe', timeout: 300_000 })
  } catch {
    return undefined
  }
  return search()
}
