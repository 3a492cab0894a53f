import type { Declaration } from '../shared/arguments/declare.ts'
import { jobsSettings } from './settings.ts'

/** `tenure jobs`: lists jobs and their last runs. */
export const jobsCommand: Declaration = {
  name: 'jobs',
  summary: 'List the jobs of a store: the last run of each, its result, and the next run.',
  settings: jobsSettings,
  examples: [
    'tenure jobs --store file:///var/lib/leases',
    `tenure jobs --store postgres://host/database --json | jq -r 'select(.runs[0].result == "failed").name'`,
  ],
  notes: ['These are the jobs of tenure run --every and --at-most-once-per, and of tenure/jobs in code.'],
  exitCodes: '0 on success, 2 for invalid usage, 69 if the store is unavailable',
  run: async (flags) => (await import('./jobs.ts')).jobs(flags),
}
