import type { Declaration } from '../shared/arguments/declare.ts'
import { controllerSettings } from './settings.ts'

/** `tenure controller`: passes the requests of a cluster's candidates on to a store that all clusters share. */
export const controllerCommand: Declaration = {
  name: 'controller',
  summary: 'Let the candidates of this cluster elect one leader with those of others.',
  settings: controllerSettings,
  examples: [
    'tenure controller --cluster east --store etcds://etcd.example.com:2379',
    'tenure run nightly-report --store multicluster://jobs -- node report.js    a candidate, in each cluster',
    'curl http://127.0.0.1:4050/metrics',
  ],
  notes: [
    'It runs in each cluster, once or more, as the pod’s service account or by the kubeconfig of the user.',
    'It holds no lease: when a candidate dies, nobody renews its lease. Install the resource first:',
    'kubectl apply -k deploy/multicluster',
    '',
  ],
  exitCodes: '0, 2 for a wrong command, 69 if the address is not available, 128 + n for a second signal',
  run: async (flags) => (await import('./controller.ts')).controller(flags),
}
