import { appendFileSync } from 'node:fs'

/**
 * The environment variable with the file to which each suite that cannot run appends a line.
 * `scripts/count-reporter.ts` prints these lines.
 */
export const missingServersVariable = 'TENURE_MISSING_SERVERS'

/** Makes the last lines of the run report what was not tested, and why. */
export function noteUntested(what: string, reason: string): void {
  const report = process.env[missingServersVariable]
  if (report) appendFileSync(report, `${what}: ${reason}\n`)
}
