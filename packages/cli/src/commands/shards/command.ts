import type { Declaration } from '../../shared/arguments/declare.ts'
import { json, storeSettings } from '../../shared/arguments/store-settings.ts'

export const shardsSettings = { ...storeSettings, json }

/** `tenure shards`: shows who owns the shards of a group. */
export const shardsCommand: Declaration = {
  name: 'shards',
  argument: '<group>',
  summary: 'Show the members of a group of shards, and which of them owns each shard.',
  settings: shardsSettings,
  examples: [
    'tenure shards sessions --store postgres://db.example.com/app',
    'tenure shards sessions --store postgres://db.example.com/app --json',
  ],
  notes: [
    'On a terminal it shows a live view that q ends. Otherwise it prints the group once.',
    'With --json it prints one line for the group, one for each member and one for each shard.',
    '',
  ],
  exitCodes:
    '0 if every shard has an owner, 1 if one has none or the group does not exist, 2 for invalid usage, 69 if the store is unavailable',
  run: async (flags, name) => (await import('./shards.ts')).shards(name, flags),
}
