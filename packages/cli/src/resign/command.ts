import type { Declaration } from '../shared/arguments/declare.ts'
import { resignSettings } from './settings.ts'

/** `tenure resign`: releases a lease. */
export const resignCommand: Declaration = {
  name: 'resign',
  argument: '<election>',
  summary: 'Release the lease of an election of a service.',
  settings: resignSettings,
  examples: [
    'tenure resign deploy --url https://elections.example.com',
    'tenure resign deploy --url http://127.0.0.1:7070 --identity node-17 --term 42',
  ],
  exitCodes:
    '0 if the lease was released, now or earlier, 1 if this node does not lead, 2 for invalid usage, 69 if the service is unavailable',
  run: async (flags, name) => (await import('./resign.ts')).resign(name, flags),
}
