import { invalidOption } from '../errors.ts'
import type { LeaseStore } from '../lease-store.ts'
import { checkName } from '../names.ts'
import { checkBoolean, checkObject, checkObserver } from '../options.ts'
import { kubernetesStore } from '../stores/kubernetes.ts'
import { observeToo, reportError, warnOf } from '../styles/callbacks.ts'
import {
  LeaderElector as StoreLeaderElector,
  type LeaderElectorOptions as StoreLeaderElectorOptions,
} from '../styles/leader-elector.ts'
import { clientOf, type AnyClient } from './any-client.ts'
import { EventRecorder } from './event-recorder.ts'
import { checkNamespace, isLeaseName } from './lease-name.ts'

/** What a {@link LeaderElector} takes beside a client. */
export interface LeaseElectorOptions extends Omit<StoreLeaderElectorOptions, 'store'> {
  readonly store?: undefined
  /** `inCluster()`, `fromKubeConfig()`, or a KubeConfig of @kubernetes/client-node. */
  readonly client: AnyClient
  /** Write a Kubernetes Event about the Lease when this replica starts and when it stops leading. Default: false. */
  readonly recordEvents?: boolean | undefined
}

/** What a {@link LeaderElector} takes: the API server to keep its Lease in, or any other store. */
export type LeaderElectorOptions = LeaseElectorOptions | (StoreLeaderElectorOptions & { readonly client?: undefined })

/**
 * Leader election with callbacks on a Lease, as controllers know it.
 *
 * @example
 * const elector = new LeaderElector({
 *   client: inCluster(), leaseName: 'my-app', leaseNamespace: 'default', identity: process.env.POD_NAME,
 *   callbacks: { onStartedLeading: (signal) => reconcile({ signal }) },
 * })
 * await elector.run({ signal })
 */
export class LeaderElector extends StoreLeaderElector {
  readonly #store: LeaseStore | undefined
  readonly #recorder: EventRecorder | undefined

  constructor(options: LeaderElectorOptions) {
    checkObject('options', options)
    if (options.client === undefined) checkWithoutClient(options)
    const { store, recorder, observer } = options.client === undefined ? {} : prepare(options)
    super(store ? { ...options, store, observer } : (options as StoreLeaderElectorOptions))
    this.#store = store
    this.#recorder = recorder
  }

  /** Campaigns until `signal` aborts; with `once`, returns after the first leadership ended. */
  override async run(options: { signal?: AbortSignal | undefined; once?: boolean | undefined } = {}): Promise<void> {
    // It rejects only if it never began, and then there is nothing of its own to end.
    await super.run(options)
    await this.#recorder?.settled()
    await this.#store?.close?.()
  }
}

function checkWithoutClient(options: { readonly store?: unknown; readonly recordEvents?: unknown }): void {
  const clients = 'inCluster(), fromKubeConfig() or a KubeConfig of @kubernetes/client-node'
  if (options.store === undefined)
    throw invalidOption('client', undefined, `it must be ${clients}, or a store be given`)
  if (options.recordEvents) throw invalidOption('recordEvents', options.recordEvents, `it needs a client: ${clients}`)
}

/** The store and the observer that a client stands for. */
function prepare(options: LeaseElectorOptions) {
  const { identity, leaseName, leaseNamespace, observer, clock, recordEvents = false } = options
  if (options.store !== undefined) throw invalidOption('store', options.store, 'it is taken only without a client')
  checkName('identity', identity)
  checkName('leaseName', leaseName)
  checkName('leaseNamespace', leaseNamespace)
  checkObserver(observer)
  checkBoolean('recordEvents', recordEvents)
  if (!isLeaseName(leaseName)) {
    throw invalidOption(
      'leaseName',
      leaseName,
      'a Lease is named with a-z, 0-9, "-" and ".", a letter or digit at each end',
    )
  }
  checkNamespace('leaseNamespace', leaseNamespace)
  const client = clientOf(options.client)
  const store = kubernetesStore({ client, namespace: leaseNamespace, clock })
  if (!recordEvents) return { store, observer, recorder: undefined }
  const report = (error: unknown) => reportError(observer, { error, election: leaseName, identity })
  const recorder = new EventRecorder({ client, leaseNamespace, leaseName, identity, clock, report })
  const observeBoth = observeToo(observer, (event) => {
    recorder.on(event)
    // The elector takes this for an observer, and leaves the warning to it.
    warnOf(event, observer)
  })
  return { store, recorder, observer: observeBoth }
}
