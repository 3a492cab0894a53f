import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Cluster } from '../servers/cluster.ts'
import type { Place } from './fleet.ts'

/** Lets a process elect on an API server, at a port of this machine that may lead to it in a roundabout way. */
export function kubernetesPlace({ caFile, adminToken }: Cluster, folder: string, port: number): Place {
  const kubeConfig = join(folder, `kubeconfig-${port}`)
  // JSON is YAML too.
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'test',
    contexts: [{ name: 'test', context: { cluster: 'test', user: 'admin' } }],
    clusters: [{ name: 'test', cluster: { server: `https://127.0.0.1:${port}`, 'certificate-authority': caFile } }],
    users: [{ name: 'admin', user: { token: adminToken } }],
  }
  writeFileSync(kubeConfig, JSON.stringify(config))
  return { store: 'kubernetes', kubeConfig }
}
