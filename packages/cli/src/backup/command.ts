import type { Declaration } from '../shared/arguments/declare.ts'
import { backupSettings } from './settings.ts'

/** `tenure backup`: copies a service's data. */
export const backupCommand: Declaration = {
  name: 'backup',
  summary: 'Back up the data of a service, running or stopped.',
  settings: backupSettings,
  examples: ['tenure backup --data /var/lib/tenure --to /backup/tenure-monday'],
  notes: ['The backup is consistent and verified. Run "tenure restore" on it before a service uses it.'],
  exitCodes: '0 on success, 2 for invalid options, 69 if the data cannot be used',
  run: async (flags) => (await import('./backup.ts')).backup(flags),
}
