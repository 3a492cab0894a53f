import { parseAddress } from '../shared/arguments/addresses.ts'
import { setting } from '../shared/arguments/settings.ts'
import { allowedHost, campaignedStoreSettings, jsonLog } from '../shared/arguments/store-settings.ts'
import { clusterOf, namespaceOf } from '../shared/arguments/values.ts'

export const controllerSettings = {
  ...campaignedStoreSettings,
  cluster: setting(
    { placeholder: 'name', help: 'the name of this cluster, unique among the clusters on the same store' },
    clusterOf,
  ),
  namespace: setting(
    { placeholder: 'name', help: 'serve only this namespace', shownDefault: 'all namespaces' },
    namespaceOf,
  ),
  listen: setting(
    {
      placeholder: 'address',
      help: 'the address to listen on; :4050 is every address',
      shownDefault: '127.0.0.1:4050',
    },
    parseAddress,
    { host: '127.0.0.1', port: 4050 },
  ),
  allowedHost,
  json: jsonLog,
}
