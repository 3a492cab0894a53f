import type { Declaration } from '../shared/arguments/declare.ts'
import { watchSettings } from './settings.ts'

/** `tenure watch`: shows the leader as it changes. */
export const watchCommand: Declaration = {
  name: 'watch',
  argument: '<election>',
  summary: 'Follow who leads an election.',
  settings: watchSettings,
  examples: [
    'tenure watch nightly-report --store kubernetes://jobs',
    'tenure watch nightly-report --store https://elections.example.com --json | jq .type',
  ],
  notes: [
    'On a terminal it shows a live view that q ends. Otherwise, and with --json, it prints one line per change.',
    '',
  ],
  exitCodes: '0 when q or --changes ended it, 2 for invalid usage, 69 if the store is unavailable',
  run: async (flags, name) => (await import('./watch.ts')).watch(name, flags),
}
