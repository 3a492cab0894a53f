import type { Declaration } from '../shared/arguments/declare.ts'
import { demoSettings } from './settings.ts'

/** `tenure demo`: shows failovers between three candidates. */
export const demoCommand: Declaration = {
  name: 'demo',
  summary: 'Watch three candidates while the leader is killed, paused or cut off.',
  settings: demoSettings,
  examples: ['tenure demo', 'tenure demo --harm-every 2s --end-after 30s'],
  notes: [
    'The candidates are local processes on the file store. Keys: k kills the leader, p pauses it, c cuts it off',
    'from its store, s stops it cleanly, q quits.',
    '',
  ],
  exitCodes: '0 on success, 2 for invalid usage, 128 + n for a signal',
  run: async (flags) => (await import('./demo.ts')).demo(flags),
}
