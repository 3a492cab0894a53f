import type { Declaration } from '../shared/arguments/declare.ts'
import { demoSettings } from './settings.ts'

/** `tenure demo`: three candidates, and what happens to them. */
export const demoCommand: Declaration = {
  name: 'demo',
  summary: 'Watch three candidates, and harm the leader.',
  settings: demoSettings,
  examples: ['tenure demo', 'tenure demo --harm-every 2s --end-after 30s'],
  notes: [
    'They are processes of this machine, on the file store. Keys: k kills the leader, p pauses it, c cuts it off',
    'from its store, s stops it in good order, q quits.',
    '',
  ],
  exitCodes: '0, 2 for a wrong command, 128 + n for a signal',
  run: async (flags) => (await import('./demo.ts')).demo(flags),
}
