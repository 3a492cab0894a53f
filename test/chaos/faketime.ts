import { appendFileSync } from 'node:fs'
import { find } from '../servers/find.ts'
import { programs } from '../servers/programs.ts'
import { missingServersVariable } from '../servers/report.ts'

/** The library that moves a process's wall clock and leaves its monotonic clock alone; undefined if it is not to be had. */
export function findFaketime(): string | undefined {
  const found = find(programs.faketime)
  if ('path' in found) return found.path
  const report = process.env[missingServersVariable]
  if (report) appendFileSync(report, `chaos of wall clocks needs libfaketime: ${found.missing}\n`)
  return undefined
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
