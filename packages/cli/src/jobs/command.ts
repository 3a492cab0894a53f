import type { Declaration } from '../shared/arguments/declare.ts'
import { jobsSettings } from './settings.ts'

/** `tenure jobs`: what ran when. */
export const jobsCommand: Declaration = {
  name: 'jobs',
  summary: 'List the jobs of a store: when each ran last, how that went, and when it runs next.',
  settings: jobsSettings,
  examples: [
    'tenure jobs --store file:///var/lib/leases',
    `tenure jobs --store postgres://host/database --json | jq -r 'select(.runs[0].result == "failed").name'`,
  ],
  notes: ['Jobs are those of tenure run --every and --at-most-once-per, and of tenure/jobs in code.'],
  exitCodes: '0, 2 for a wrong command, 69 if the store cannot be asked',
  run: async (flags) => (await import('./jobs.ts')).jobs(flags),
}
