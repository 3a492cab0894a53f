import { isLoopbackHost } from '@tenure/internal/loopback'
import { parseAddress } from '../shared/arguments/addresses.ts'
import { InvalidValue } from '../shared/arguments/refusal.ts'
import { setting } from '../shared/arguments/settings.ts'
import { storeSettings } from '../shared/arguments/store-settings.ts'

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
