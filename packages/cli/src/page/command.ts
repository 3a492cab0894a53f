import type { Declaration } from '../shared/arguments/declare.ts'
import { pageSettings } from './settings.ts'

/** `tenure page`: the page of the service, for every other store. */
export const pageCommand: Declaration = {
  name: 'page',
  summary: 'Show the elections of any store on a page, in a browser on this machine.',
  settings: pageSettings,
  examples: ['tenure page --store kubernetes://jobs', 'tenure page --store postgres://db.example.com/app'],
  notes: [
    'It prints an address with a secret in it: whoever has it reads the store with your credentials while this runs.',
    'It only reads. A service has the page by itself, at its own address.',
    '',
  ],
  exitCodes: '0, 2 for a wrong command, 69 if the store cannot be asked or the address is not available',
  run: async (flags) => (await import('./page.ts')).page(flags),
}
