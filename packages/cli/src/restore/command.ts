import type { Declaration } from '../shared/arguments/declare.ts'
import { restoreSettings } from './settings.ts'

/** `tenure restore`: prepares a backup for use by a service. */
export const restoreCommand: Declaration = {
  name: 'restore',
  summary: 'Prepare a backup, or data that was copied or rolled back, for use by a service.',
  settings: restoreSettings,
  examples: ['tenure restore --data /var/lib/tenure', 'tenure restore --store etcd://10.0.0.1:2379/tenure'],
  notes: [
    'Terms granted since the backup are unknown, so restore skips a million terms in every election.',
    'First stop the service that the data comes from, and wait for the longest lease in use.',
  ],
  exitCodes: '0 on success, 2 for invalid options, 69 if the data cannot be used',
  run: async (flags) => (await import('./restore.ts')).restore(flags),
}
