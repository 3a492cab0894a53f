import type { Declaration } from '../shared/arguments/declare.ts'
import { leaderSettings } from './settings.ts'

/** `tenure leader`: who leads now. */
export const leaderCommand: Declaration = {
  name: 'leader',
  argument: '<election>',
  summary: 'Show who leads an election.',
  settings: leaderSettings,
  examples: [
    'tenure leader nightly-report --store file:///var/lib/leases',
    'tenure leader nightly-report --store https://elections.example.com --json',
  ],
  exitCodes: '0 if somebody leads, 1 if nobody does, 2 for a wrong command, 69 if the store cannot be asked',
  run: async (flags, name) => (await import('./leader.ts')).leader(name, flags),
}
