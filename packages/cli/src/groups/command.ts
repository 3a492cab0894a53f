import type { Declaration } from '../shared/arguments/declare.ts'
import { groupsSettings } from './settings.ts'

/** `tenure groups`: the elections that a store keeps. */
export const groupsCommand: Declaration = {
  name: 'groups',
  summary: 'List the elections of a store, and who leads each.',
  settings: groupsSettings,
  examples: [
    'tenure groups --store kubernetes://jobs',
    'tenure groups --url https://elections.example.com --json | jq -r .group_id',
  ],
  exitCodes: '0, 2 for a wrong command, 69 if the store cannot be asked',
  run: async (flags) => (await import('./groups.ts')).groups(flags),
}
