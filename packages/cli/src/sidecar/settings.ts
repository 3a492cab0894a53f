import { parseListen } from '../shared/arguments/addresses.ts'
import { setting } from '../shared/arguments/settings.ts'
import {
  allowedHost,
  campaignedStoreSettings,
  identity,
  jsonLog,
  metadata,
  metrics,
  ttl,
} from '../shared/arguments/store-settings.ts'

export const sidecarSettings = {
  ...campaignedStoreSettings,
  listen: setting(
    {
      placeholder: 'address',
      help: 'the address to listen on; :4040 is every address, unix:PATH is a Unix socket',
      shownDefault: '127.0.0.1:4040',
    },
    parseListen,
    { host: '127.0.0.1', port: 4040 },
  ),
  metrics,
  allowedHost,
  identity: {
    ...identity,
    shownDefault: 'the node of the token, else POD_NAME, else the host name, the process id and a random part',
  },
  ttl,
  metadata,
  json: jsonLog,
}
