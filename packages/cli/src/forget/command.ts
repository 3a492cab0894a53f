import type { Declaration } from '../shared/arguments/declare.ts'
import { forgetSettings } from './settings.ts'

/** `tenure forget`: removes the record of a released election. */
export const forgetCommand: Declaration = {
  name: 'forget',
  argument: '<election>',
  summary: 'Remove the record of a released election.',
  settings: forgetSettings,
  examples: [
    'tenure forget import-2026 --store file:///var/lib/leases',
    'tenure forget import-2026 --with-term --store etcd://10.0.0.1:2379',
  ],
  exitCodes:
    '0 if the record was removed or did not exist, 1 if the election has a leader or the store cannot forget, 2 for invalid usage, 69 if the store is unavailable',
  run: async (flags, name) => (await import('./forget.ts')).forget(name, flags),
}
