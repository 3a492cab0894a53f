import { parseAddress } from '../../shared/arguments/addresses.ts'
import type { Declaration } from '../../shared/arguments/declare.ts'
import { setting } from '../../shared/arguments/settings.ts'
import { allowedHost, candidateStoreSettings, jsonLog } from '../../shared/arguments/store-settings.ts'
import { clusterOf, namespaceOf } from '../../shared/arguments/values.ts'

export const controllerSettings = {
  ...candidateStoreSettings,
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

/** `tenure controller`: relays requests from a cluster's candidates to a store that all clusters share. */
export const controllerCommand: Declaration = {
  name: 'controller',
  summary: 'Let candidates of several Kubernetes clusters elect one leader. Run it in each cluster.',
  settings: controllerSettings,
  examples: [
    'tenure controller --cluster east --store etcds://etcd.example.com:2379',
    'tenure run nightly-report --store multicluster://jobs -- node report.js    a candidate, in each cluster',
    'curl http://127.0.0.1:4050/metrics',
  ],
  notes: [
    'Run one or more in each cluster, as the pod’s service account or with the user’s kubeconfig.',
    'A controller never holds a lease itself: when a candidate dies, its lease expires. Install the resource first:',
    'kubectl apply -k deploy/multicluster',
    '',
  ],
  exitCodes: '0 on success, 2 for invalid usage, 69 if the address is unavailable, 128 + n for a second signal',
  run: async (flags) => (await import('./controller.ts')).controller(flags),
}
