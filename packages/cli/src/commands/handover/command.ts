import type { Declaration } from '../../shared/arguments/declare.ts'
import { parseDuration } from '../../shared/arguments/durations.ts'
import { setting } from '../../shared/arguments/settings.ts'
import { json, storeSettings } from '../../shared/arguments/store-settings.ts'
import { nameOf } from '../../shared/arguments/values.ts'

export const handoverSettings = {
  ...storeSettings,
  to: setting(
    { placeholder: 'name', help: 'the candidate that should lead next; flag only', withoutVariable: true },
    nameOf,
  ),
  wait: setting(
    {
      placeholder: 'duration',
      help: 'how long to wait until the leader has handed over; its work must settle first',
      shownDefault: '1m',
    },
    parseDuration,
    60_000,
  ),
  json,
}

/** `tenure handover`: asks a leader to hand over to a candidate. */
export const handoverCommand: Declaration = {
  name: 'handover',
  argument: '<election>',
  summary: 'Ask the leader of an election to hand over to a candidate.',
  settings: handoverSettings,
  examples: [
    'tenure handover deploy --to node-3 --store postgres://db.example.com/app',
    'tenure handover deploy --to node-3 --url https://elections.example.com',
  ],
  notes: [
    'The leader and the candidate must run with "present". A service ends the term itself, for an administrator, and',
    'grants the lease only after it would have expired.',
    '',
  ],
  exitCodes: '0 if the candidate leads, 1 if it does not, 2 for invalid usage, 69 if the store is unavailable',
  run: async (flags, name) => (await import('./handover.ts')).handover(name, flags),
}
