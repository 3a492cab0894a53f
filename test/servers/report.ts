import { appendFileSync } from 'node:fs'

/** Names the file to which each suite that cannot run here adds a line. `scripts/count-reporter.ts` shows them. */
export const missingServersVariable = 'TENURE_MISSING_SERVERS'

/** Has the last lines of the run say that something was not tested, and why. */
export function noteUntested(what: string, reason: string): void {
  const report = process.env[missingServersVariable]
  if (report) appendFileSync(report, `${what}: ${reason}\n`)
}
