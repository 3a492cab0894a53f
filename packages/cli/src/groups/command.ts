import type { Declaration } from '../shared/arguments/declare.ts'
import { groupsSettings } from './settings.ts'

/** `tenure groups`: lists the elections of a store. */
export const groupsCommand: Declaration = {
  name: 'groups',
  summary: 'List the elections of a store and their leaders.',
  settings: groupsSettings,
  examples: [
    'tenure groups --store kubernetes://jobs',
    'tenure groups --url https://elections.example.com --json | jq -r .group_id',
  ],
  exitCodes: '0 on success, 2 for invalid usage, 69 if the store is unavailable',
  run: async (flags) => (await import('./groups.ts')).groups(flags),
}
