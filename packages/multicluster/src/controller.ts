import { contain } from '@tenure/internal/contain'
import { createHash } from 'node:crypto'
import { systemClock } from '@tenure/internal/clock'
import { Elector, type Clock, type LeaseStore } from 'tenure'
import { inCluster, type AnyClient } from 'tenure/kubernetes'
import { checkOptions, type OptionNames } from 'tenure/options'
import { kubernetesStore } from 'tenure/stores/kubernetes'
import { clientOf, kubernetesResources } from 'tenure/stores/multicluster'
import { leadershipEvents } from './events.ts'
import { controllerMetrics, type ControllerMetrics } from './metrics.ts'
import { checkLabel } from './names.ts'
import type { RelayObserver } from './observer.ts'
import { Relay } from './relay.ts'

/** What {@link startController} takes. */
export interface ControllerOptions {
  /** The global lock: a store that the controllers of all clusters share. */
  readonly store: LeaseStore
  /** The name of this cluster, which no other one on the same store has. */
  readonly cluster: string
  /** Of this cluster's API server. Default: `inCluster()`. */
  readonly client?: AnyClient | undefined
  /** Serves the resources of this namespace. Default: all of them. */
  readonly namespace?: string | undefined
  /** Who this is among the controllers of the cluster. Default: POD_NAME, else the host's name, the process id and a random part. */
  readonly identity?: string | undefined
  /** Where the Lease is that says who answers first. Default: POD_NAMESPACE, else `default`. */
  readonly leaseNamespace?: string | undefined
  /** Told what happens. */
  readonly observer?: RelayObserver | undefined
  readonly clock?: Clock | undefined
}

/** A controller that runs. */
export interface Controller {
  readonly identity: string
  /** Whether it follows the resources of its cluster, and the global store answers. */
  health(): ControllerHealth
  readonly metrics: Pick<ControllerMetrics, 'contentType' | 'text'>
  /** Ends it. What it was asked is answered by another one, or by the next. The store stays open. */
  stop(): Promise<void>
}

/** How a controller is. */
export interface ControllerHealth {
  /** It has seen all resources, and follows them. */
  readonly isReady: boolean
  /** The newest call to the global store was answered. */
  readonly isBackendHealthy: boolean
  /** It answers first in its cluster. */
  readonly isFirst: boolean
  readonly summary: string
}

const names: OptionNames<ControllerOptions> = {
  store: true,
  cluster: true,
  client: true,
  namespace: true,
  identity: true,
  leaseNamespace: true,
  observer: true,
  clock: true,
}

/**
 * Starts the controller of a cluster: it carries out on the global store what candidates ask for in MultiClusterLeases,
 * and writes the answers into their status. Several may run in one cluster; each answers what another leaves unanswered.
 *
 * @example
 * const store = etcdStore({ endpoints: 'https://etcd.example.com:2379' })
 * const controller = startController({ store, cluster: 'east' })
 * process.once('SIGTERM', () => controller.stop())
 */
export function startController(options: ControllerOptions): Controller {
  checkOptions('startController()', options, names)
  const { store, cluster, namespace, clock = systemClock } = options
  checkLabel('cluster', cluster)
  if (namespace !== undefined) checkLabel('namespace', namespace)
  const client = options.client === undefined ? inCluster() : clientOf(options.client)
  // The candidates' leases last through this one's fail-over, because others answer without it.
  const elector = new Elector({
    store: kubernetesStore({ client, namespace: options.leaseNamespace, clock: options.clock }),
    election: leaseNameFor(cluster, namespace),
    identity: options.identity ?? (process.env['POD_NAME'] || undefined),
    clock: options.clock,
    observer: { onEvent: (event) => event.type === 'error' && tell((one) => one.onError?.(event.error, 'electing')) },
  })
  const isFirst = () => elector.isLeader()
  const metrics = controllerMetrics(cluster, () => ({ ...relay.load(), isFirst: isFirst() }))
  const write = leadershipEvents({
    client,
    identity: elector.identity,
    clock,
    report: (error) => tell((one) => one.onError?.(error, 'writing an Event')),
  })
  const observers: readonly RelayObserver[] = [metrics, { onLeadership: write }, options.observer ?? {}]
  const tell = (call: (one: RelayObserver) => unknown) => {
    for (const one of observers) {
      // An observer's own mistake must not cost a renewal, nor end the process.
      contain(
        () => call(one),
        () => undefined,
      )
    }
  }
  const observer: RelayObserver = {
    onCall: (report) => tell((one) => one.onCall?.(report)),
    onWritten: (report) => tell((one) => one.onWritten?.(report)),
    onConflict: (resource) => tell((one) => one.onConflict?.(resource)),
    onLeadership: (report) => tell((one) => one.onLeadership?.(report)),
    onBackend: (report) => tell((one) => one.onBackend?.(report)),
    onError: (error, during) => tell((one) => one.onError?.(error, during)),
  }
  const relay = new Relay({
    resources: kubernetesResources(client, clock),
    store,
    cluster,
    namespace,
    clock,
    isFirst,
    observer,
  })
  elector.start()
  relay.start()
  return {
    identity: elector.identity,
    metrics,
    health() {
      const { isSynced: isReady, isBackendHealthy } = relay
      return { isReady, isBackendHealthy, isFirst: isFirst(), summary: summaryOf(isReady, isBackendHealthy) }
    },
    async stop() {
      // First: another one is to answer at once.
      await Promise.all([elector.stop(), relay.stop()])
      client.close()
    },
  }
}

/** Controllers that serve the same resources compete for one Lease. */
function leaseNameFor(cluster: string, namespace: string | undefined): string {
  const scope = createHash('sha256')
    .update(JSON.stringify([cluster, namespace ?? null]))
    .digest('hex')
    .slice(0, 10)
  return `tenure-controller-${scope}`
}

function summaryOf(isReady: boolean, isBackendHealthy: boolean): string {
  if (!isReady) return 'It has not seen the MultiClusterLeases of this cluster yet, or lost sight of them.'
  return isBackendHealthy ? 'It answers.' : 'The global store does not answer.'
}
