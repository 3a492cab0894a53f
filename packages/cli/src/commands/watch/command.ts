import type { Declaration } from '../../shared/arguments/declare.ts'
import { setting, toggle } from '../../shared/arguments/settings.ts'
import { json, storeSettings } from '../../shared/arguments/store-settings.ts'
import { countOf } from '../../shared/arguments/values.ts'

export const watchSettings = {
  ...storeSettings,
  json,
  renewals: toggle('also print renewals'),
  changes: setting(
    { placeholder: 'number', help: 'exit after this many lines; the first is the current state' },
    countOf,
  ),
}

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
