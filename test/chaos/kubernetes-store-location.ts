import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { kubeConfigOf } from '../kubernetes/kube-config.ts'
import type { ApiServer } from '../servers/cluster.ts'
import type { StoreLocation } from './fleet.ts'

/** Returns a store on an API server, reached through a port of this machine that may be a proxy. */
export function kubernetesStoreLocation(cluster: ApiServer, folder: string, port: number): StoreLocation {
  const kubeConfig = join(folder, `kubeconfig-${port}`)
  // Write the file only once, because a process may be reading it.
  if (!existsSync(kubeConfig)) writeFileSync(kubeConfig, kubeConfigOf(cluster, { port }))
  return { store: 'kubernetes', kubeConfig, namespace: cluster.namespace }
}
