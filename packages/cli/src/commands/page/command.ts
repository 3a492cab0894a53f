import { isLoopbackHost } from '@tenure/internal/loopback'
import { parseAddress } from '../../shared/arguments/addresses.ts'
import type { Declaration } from '../../shared/arguments/declare.ts'
import { InvalidValue } from '../../shared/arguments/invalid-value.ts'
import { setting } from '../../shared/arguments/settings.ts'
import { storeSettings } from '../../shared/arguments/store-settings.ts'

export const pageSettings = {
  ...storeSettings,
  listen: setting(
    {
      placeholder: 'address',
      help: 'the loopback address to serve the page on',
      shownDefault: '127.0.0.1 and a free port',
    },
    (text: string) => {
      const address = parseAddress(text)
      // The server reads with the operator's credentials and has no TLS, so it must not be reachable from other
      // machines.
      if (!isLoopbackHost(address.host)) throw new InvalidValue('must be a loopback address, such as 127.0.0.1:7080')
      return address
    },
    { host: '127.0.0.1', port: 0 },
  ),
}

/** `tenure page`: shows the page of the service for every other store. */
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
