import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startController } from '@tenure/multicluster'
import { fromKubeConfig, type KubernetesClient } from 'tenure/kubernetes'
import { etcdStore } from 'tenure/stores/etcd'
import { multiclusterStore, type MulticlusterStore } from 'tenure/stores/multicluster'
import { kubeConfigOf } from '../kubernetes/kube-config.ts'
import { startCluster, type ApiServer } from '../servers/cluster.ts'
import { etcd } from '../servers/etcd.ts'
import { installCrd } from '../servers/multicluster-crd.ts'
import { start, type RunningServer } from '../servers/server.ts'
import { shareCluster } from '../servers/shared-cluster.ts'

/** A cluster with a controller of its own. */
export interface Site {
  readonly server: ApiServer
  /** Of the admin; in a file. */
  readonly kubeConfig: string
  client(): KubernetesClient
  /** A store as a pod of this cluster has it. */
  open(): MulticlusterStore
}

/** Two clusters and what they share. */
export interface TwoClusters {
  readonly east: Site
  readonly west: Site
  readonly global: RunningServer
  /** There is one of this name in both, and it is the one that the controllers serve. */
  readonly namespace: string
  /** What a candidate in the west got before the definition of the resource was installed there. */
  readonly tooEarly: unknown
  stop(): Promise<void>
}

/** Two API servers, each with its controller, and an etcd as global lock. The one in the east is shared with others. */
export async function startTwoClusters(): Promise<TwoClusters> {
  const [eastern, western, global] = await Promise.all([shareCluster(), startCluster(), start(etcd)])
  const { namespace } = eastern
  await western.admin.request('POST', '/api/v1/namespaces', { metadata: { name: namespace } })
  const folder = mkdtempSync(join(tmpdir(), 'tenure-clusters-'))
  const siteOf = (name: string, server: ApiServer): Site => {
    const kubeConfig = join(folder, name)
    writeFileSync(kubeConfig, kubeConfigOf(server))
    const client = () => fromKubeConfig(kubeConfig)
    return { server, kubeConfig, client, open: () => multiclusterStore({ client: client(), namespace }) }
  }
  const sites = { east: siteOf('east', eastern), west: siteOf('west', western) }
  const early = sites.west.open()
  const tooEarly = await early
    .read('job', { signal: AbortSignal.timeout(30_000), timeoutMs: 20_000 })
    .catch((error: unknown) => error)
  await early.close?.()
  const controllers = Object.entries(sites).map(async ([cluster, site]) => {
    await installCrd(site.server)
    const store = etcdStore({ endpoints: global.url })
    const leaseNamespace = namespace
    const controller = startController({ store, cluster, client: site.client(), namespace, leaseNamespace })
    return async () => {
      await controller.stop()
      await store.close?.()
    }
  })
  const stops = await Promise.all(controllers)
  return {
    ...sites,
    global,
    namespace,
    tooEarly,
    async stop() {
      await Promise.all(stops.map((stop) => stop()))
      await Promise.all([western.stop(), global.stop()])
      rmSync(folder, { recursive: true })
    },
  }
}
