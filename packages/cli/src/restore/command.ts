import type { Declaration } from '../shared/arguments/declare.ts'
import { restoreSettings } from './settings.ts'

/** `tenure restore`: lets a backup be served. */
export const restoreCommand: Declaration = {
  name: 'restore',
  summary: 'Let a service take a backup, or data that were copied or put back.',
  settings: restoreSettings,
  examples: ['tenure restore --data /var/lib/tenure', 'tenure restore --store etcd://10.0.0.1:2379/tenure'],
  notes: [
    'Nobody knows which terms were granted since the backup, so a million are skipped in every group.',
    'Before: stop the service that the data come from, and wait for the longest lease in use.',
  ],
  exitCodes: '0, 2 for wrong options, 69 if the data cannot be used',
  run: async (flags) => (await import('./restore.ts')).restore(flags),
}
