import type { Declaration } from '../shared/arguments/declare.ts'
import { controllerSettings } from './settings.ts'

/** `tenure controller`: relays the requests of a cluster's candidates to a store that all clusters share. */
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
    'Run one or more in each cluster, as the pod’s service account or with the kubeconfig of the user.',
    'A controller never holds a lease itself: when a candidate dies, its lease expires. Install the resource first:',
    'kubectl apply -k deploy/multicluster',
    '',
  ],
  exitCodes: '0 on success, 2 for invalid usage, 69 if the address is unavailable, 128 + n for a second signal',
  run: async (flags) => (await import('./controller.ts')).controller(flags),
}
