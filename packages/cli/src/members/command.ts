import type { Declaration } from '../shared/arguments/declare.ts'
import { membersSettings } from './settings.ts'

/** `tenure members`: lists the candidates of an election. */
export const membersCommand: Declaration = {
  name: 'members',
  argument: '<election>',
  summary: 'List the members of an election of a service: its leader and candidates.',
  settings: membersSettings,
  examples: ['tenure members deploy --url https://elections.example.com'],
  exitCodes:
    '0 if the election exists, 1 if there is no such election, 2 for invalid usage, 69 if the service is unavailable',
  run: async (flags, name) => (await import('./members.ts')).members(name, flags),
}
