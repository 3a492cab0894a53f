import { callSafely } from '@tenure/internal/call-safely'
import { createHash } from 'node:crypto'
import { systemClock } from '@tenure/internal/clock'
import { Elector, type Clock, type LeaseStore } from 'tenure'
import { inCluster, type AnyClient } from 'tenure/kubernetes'
import { checkOptions, type OptionNames } from 'tenure/internal'
import { kubernetesStore } from 'tenure/stores/kubernetes'
import { clientOf, kubernetesResources } from 'tenure/internal/multicluster'
import { leadershipEvents } from './events.ts'
import { controllerMetrics, type ControllerMetrics } from './metrics.ts'
import { checkLabel } from '../calls/global-names.ts'
import type { RelayObserver } from '../calls/observer.ts'
import { Relay } from '../relay/relay.ts'

/** Options of {@link startController}. */
export interface ControllerOptions {
  /** The global store, which the controllers of all clusters share. */
  readonly store: LeaseStore
  /** The name of this cluster. It must be unique among all clusters on the same store. */
  readonly cluster: string
  /** The client for this cluster's API server. Default: `inCluster()`. */
  readonly client?: AnyClient | undefined
  /** Serves only resources in this namespace. Default: all namespaces. */
  readonly namespace?: string | undefined
  /**
   * The identity among the controllers of this cluster. Default: POD_NAME, or else the host name, the process id, and a
   * random part.
   */
  readonly identity?: string | undefined
  /**
   * The namespace of the Lease that elects the primary controller, which answers first. Default: POD_NAMESPACE, or else
   * `default`.
   */
  readonly leaseNamespace?: string | undefined
  /** Receives reports. */
  readonly observer?: RelayObserver | undefined
  readonly clock?: Clock | undefined
}

/** A running controller. */
export interface Controller {
  readonly identity: string
  /** Returns whether the controller watches the resources of its cluster, and whether the global store answers. */
  health(): ControllerHealth
  readonly metrics: Pick<ControllerMetrics, 'contentType' | 'text'>
  /**
   * Stops the controller. Another controller, or this one after a restart, answers open requests. The store stays open.
   */
  stop(): Promise<void>
}

/** The health of a controller. */
export interface ControllerHealth {
  /** Whether the controller has seen all resources and is watching them. */
  readonly isReady: boolean
  /** Whether the latest call to the global store was answered. */
  readonly isBackendHealthy: boolean
  /** Whether the controller answers first in its cluster. */
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
 * Starts the controller of a cluster. It performs the requests that candidates write into MultiClusterLeases on the
 * global store, and writes the answers into their status. Several controllers may run in one cluster. Each of them
 * answers requests that the others leave unanswered.
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
  // The candidates' leases survive a failover of this elector, because other controllers answer without it.
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
      // An observer's error must not cost a renewal or end the process.
      callSafely(
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
      // Stop the elector at the same time, so that another controller answers immediately.
      await Promise.all([elector.stop(), relay.stop()])
      client.close()
    },
  }
}

/** Returns the name of the Lease for which controllers of the same resources compete. */
function leaseNameFor(cluster: string, namespace: string | undefined): string {
  const scope = createHash('sha256')
    .update(JSON.stringify([cluster, namespace ?? null]))
    .digest('hex')
    .slice(0, 10)
  return `tenure-controller-${scope}`
}

function summaryOf(isReady: boolean, isBackendHealthy: boolean): string {
  if (!isReady) return 'The controller is not watching the MultiClusterLeases of this cluster.'
  return isBackendHealthy ? 'The controller is ready.' : 'The global store does not answer.'
}
