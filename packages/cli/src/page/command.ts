import type { Declaration } from '../shared/arguments/declare.ts'
import { pageSettings } from './settings.ts'

/** `tenure page`: the page of the service, for every other store. */
export const pageCommand: Declaration = {
  name: 'page',
  summary: 'Show the elections of any store in a browser on this machine.',
  settings: pageSettings,
  examples: ['tenure page --store kubernetes://jobs', 'tenure page --store postgres://db.example.com/app'],
  notes: [
    'It prints an address that contains a secret. While this runs, anyone with that address can read the store as you.',
    'The page is read-only. A service has this page at its own address.',
    '',
  ],
  exitCodes: '0 on success, 2 for invalid usage, 69 if the store or the address is unavailable',
  run: async (flags) => (await import('./page.ts')).page(flags),
}
