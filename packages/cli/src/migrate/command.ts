import type { Declaration } from '../shared/arguments/declare.ts'
import { migrateSettings } from './settings.ts'

/** `tenure migrate`: the data of a service, from one place to another. */
export const migrateCommand: Declaration = {
  name: 'migrate',
  summary: 'Move the data of a service to another place: a directory, an etcd or a PostgreSQL.',
  settings: migrateSettings,
  examples: [
    'tenure migrate --from /var/lib/tenure --to etcd://10.0.0.1:2379/tenure',
    'tenure migrate --from etcd://10.0.0.1:2379/tenure --to /var/lib/tenure',
  ],
  notes: [
    'Stop the service, or all replicas, before. Every term, definition and carry is kept, and so is the id of the cluster.',
    'The source is marked as moved first, and no service takes it any more. Run it again if it did not end.',
  ],
  exitCodes: '0, 2 for wrong options, 69 if one of the places cannot be used',
  run: async (flags) => (await import('./migrate.ts')).migrate(flags),
}
