import { isLoopbackHost } from '@tenure/internal/loopback'
import { parseAddress } from '../shared/arguments/addresses.ts'
import { Refusal } from '../shared/arguments/refusal.ts'
import { setting } from '../shared/arguments/settings.ts'
import { storeSettings } from '../shared/arguments/store-settings.ts'

export const pageSettings = {
  ...storeSettings,
  listen: setting(
    { placeholder: 'address', help: 'where to show it, on this machine', shownDefault: '127.0.0.1 and a free port' },
    (text: string) => {
      const address = parseAddress(text)
      // It reads with the operator's credentials, and speaks without TLS.
      if (!isLoopbackHost(address.host))
        throw new Refusal('must be an address of this machine alone, as 127.0.0.1:7080')
      return address
    },
    { host: '127.0.0.1', port: 0 },
  ),
}
