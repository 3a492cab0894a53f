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

/** A cluster with its own controller. */
export interface TestCluster {
  readonly server: ApiServer
  /** The path of the admin's kubeconfig. */
  readonly kubeConfig: string
  client(): KubernetesClient
  /** Opens a store as a pod of this cluster does. */
  open(): MulticlusterStore
}

/** Two clusters, and the resources that they share. */
export interface TwoClusters {
  readonly east: TestCluster
  readonly west: TestCluster
  readonly global: RunningServer
  /** The namespace that exists in both clusters and that the controllers serve. */
  readonly namespace: string
  /** The error that a candidate in the west cluster got before the CRD was installed there. */
  readonly tooEarly: unknown
  stop(): Promise<void>
}

/**
 * Starts two API servers, each with its controller, and an etcd as the global lock. The API server in the east is
 * shared with other suites.
 */
export async function startTwoClusters(): Promise<TwoClusters> {
  const [eastern, western, global] = await Promise.all([shareCluster(), startCluster(), start(etcd)])
  const { namespace } = eastern
  await western.admin.request('POST', '/api/v1/namespaces', { metadata: { name: namespace } })
  const folder = mkdtempSync(join(tmpdir(), 'tenure-clusters-'))
  const siteOf = (name: string, server: ApiServer): TestCluster => {
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
