import type { Declaration } from '../shared/arguments/declare.ts'
import { migrateSettings } from './settings.ts'

/** `tenure migrate`: moves the data of a service. */
export const migrateCommand: Declaration = {
  name: 'migrate',
  summary: 'Move the data of a service to another directory, etcd or PostgreSQL.',
  settings: migrateSettings,
  examples: [
    'tenure migrate --from /var/lib/tenure --to etcd://10.0.0.1:2379/tenure',
    'tenure migrate --from etcd://10.0.0.1:2379/tenure --to /var/lib/tenure',
  ],
  notes: [
    'Stop the service, or all replicas, first. All terms, definitions, checkpoints and the cluster id are kept.',
    'The source is marked as moved first, and no service uses it from then on. If the command is interrupted, run it again.',
  ],
  exitCodes: '0 on success, 2 for invalid options, 69 if the source or the target cannot be used',
  run: async (flags) => (await import('./migrate.ts')).migrate(flags),
}
