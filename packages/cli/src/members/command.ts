import type { Declaration } from '../shared/arguments/declare.ts'
import { membersSettings } from './settings.ts'

/** `tenure members`: who takes part. */
export const membersCommand: Declaration = {
  name: 'members',
  argument: '<group>',
  summary: 'List who takes part in a group.',
  settings: membersSettings,
  examples: ['tenure members deploy --url https://elections.example.com'],
  exitCodes:
    '0 if the group exists, 1 if there is no such group, 2 for a wrong command, 69 if the service cannot be asked',
  run: async (flags, name) => (await import('./members.ts')).members(name, flags),
}
