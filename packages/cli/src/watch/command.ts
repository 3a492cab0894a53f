import type { Declaration } from '../shared/arguments/declare.ts'
import { watchSettings } from './settings.ts'

/** `tenure watch`: who leads, as it changes. */
export const watchCommand: Declaration = {
  name: 'watch',
  argument: '<election>',
  summary: 'Show who leads an election, as it changes.',
  settings: watchSettings,
  examples: [
    'tenure watch nightly-report --store kubernetes://jobs',
    'tenure watch nightly-report --store https://elections.example.com --json | jq .type',
  ],
  notes: ['On a terminal it is a live view; q ends it. Elsewhere, and with --json, each change is a line.', ''],
  exitCodes: '0 when q or --changes ended it, 2 for a wrong command, 69 if the store cannot be asked',
  run: async (flags, name) => (await import('./watch.ts')).watch(name, flags),
}
