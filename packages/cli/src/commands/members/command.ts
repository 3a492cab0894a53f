import type { Declaration } from '../../shared/arguments/declare.ts'
import { parseDuration } from '../../shared/arguments/durations.ts'
import { setting } from '../../shared/arguments/settings.ts'
import { json, storeSettings } from '../../shared/arguments/store-settings.ts'

export const membersSettings = {
  ...storeSettings,
  json,
  observe: setting(
    {
      placeholder: 'duration',
      help: 'observe members that may have crashed for up to this long, and leave out those that have; one lease is enough',
      shownDefault: '0s',
    },
    parseDuration,
    0,
  ),
}

/** `tenure members`: lists the processes that take part in an election. */
export const membersCommand: Declaration = {
  name: 'members',
  argument: '<election>',
  summary: 'List the members of an election: its leader and its standbys.',
  settings: membersSettings,
  examples: [
    'tenure members deploy --store postgres://db.example.com/app',
    'tenure members deploy --store postgres://db.example.com/app --observe 15s --json',
    'tenure members deploy --url https://elections.example.com',
  ],
  notes: [
    'A service knows its members. In any other store, they are the candidates that run with "present".',
    'On a terminal it shows a live view that q ends. Otherwise, and with --json, it prints the members once.',
    '',
  ],
  exitCodes:
    '0 if there are members, 1 if there are none or the election does not exist, 2 for invalid usage, 69 if the store is unavailable',
  run: async (flags, name) => (await import('./members.ts')).members(name, flags),
}
