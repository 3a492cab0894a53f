import type { Declaration } from '../shared/arguments/declare.ts'
import { leaderSettings } from './settings.ts'

/** `tenure leader`: shows the current leader. */
export const leaderCommand: Declaration = {
  name: 'leader',
  argument: '<election>',
  summary: 'Show who leads an election.',
  settings: leaderSettings,
  examples: [
    'tenure leader nightly-report --store file:///var/lib/leases',
    'tenure leader nightly-report --store https://elections.example.com --json',
  ],
  exitCodes: '0 if the election has a leader, 1 if it has none, 2 for invalid usage, 69 if the store is unavailable',
  run: async (flags, name) => (await import('./leader.ts')).leader(name, flags),
}
