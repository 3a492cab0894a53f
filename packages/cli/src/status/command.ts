import type { Declaration } from '../shared/arguments/declare.ts'
import { statusSettings } from './settings.ts'

/** `tenure status`: shows the replicas of a service. */
export const statusCommand: Declaration = {
  name: 'status',
  summary: 'Show the replicas of a service: which one is active, and how far behind the others are.',
  settings: statusSettings,
  examples: ['tenure status --url https://elections.example.com'],
  exitCodes:
    '0 if a replica is active and the storage answers, 1 if not, 2 for invalid usage, 69 if the service is unavailable',
  run: async (flags) => (await import('./status.ts')).status(flags),
}
