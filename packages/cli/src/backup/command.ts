import type { Declaration } from '../shared/arguments/declare.ts'
import { backupSettings } from './settings.ts'

/** `tenure backup`: a copy of a service's data. */
export const backupCommand: Declaration = {
  name: 'backup',
  summary: 'Copy the data of a service, while it runs or is stopped.',
  settings: backupSettings,
  examples: ['tenure backup --data /var/lib/tenure --to /backup/tenure-monday'],
  notes: ['The copy is consistent and checked. Before a service takes it, "tenure restore" must be run on it.'],
  exitCodes: '0, 2 for wrong options, 69 if the data cannot be used',
  run: async (flags) => (await import('./backup.ts')).backup(flags),
}
