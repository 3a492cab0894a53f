import type { Declaration } from '../shared/arguments/declare.ts'
import { resignSettings } from './settings.ts'

/** `tenure resign`: gives the lease back. */
export const resignCommand: Declaration = {
  name: 'resign',
  argument: '<group>',
  summary: 'Give the lease of a group back.',
  settings: resignSettings,
  examples: [
    'tenure resign deploy --url https://elections.example.com',
    'tenure resign deploy --url http://127.0.0.1:7070 --identity node-17 --term 42',
  ],
  exitCodes:
    '0 if it was given back, now or before, 1 if it did not lead, 2 for a wrong command, 69 if the service cannot be asked',
  run: async (flags, name) => (await import('./resign.ts')).resign(name, flags),
}
