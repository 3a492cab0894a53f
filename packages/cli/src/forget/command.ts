import type { Declaration } from '../shared/arguments/declare.ts'
import { forgetSettings } from './settings.ts'

/** `tenure forget`: removes the record of an election that nobody leads. */
export const forgetCommand: Declaration = {
  name: 'forget',
  argument: '<election>',
  summary: 'Remove the record of an election that was released.',
  settings: forgetSettings,
  examples: [
    'tenure forget import-2026 --store file:///var/lib/leases',
    'tenure forget import-2026 --with-term --store etcd://10.0.0.1:2379',
  ],
  exitCodes:
    '0 if it was removed, or nothing was there, 1 if somebody leads or the store cannot forget, 2 for a wrong command, 69 if the store cannot be asked',
  run: async (flags, name) => (await import('./forget.ts')).forget(name, flags),
}
