import { systemClock } from '../common/clock.ts'
import { invalidOption } from '../common/errors.ts'
import { checkNamespace } from '../kubernetes/codec/lease-name.ts'
import { clientOf } from '../clients/kubernetes/credentials/any-client.ts'
import { EventRecorder } from '../kubernetes/event-recorder.ts'
import { adviseOnNamespace, defaultNamespace } from '../kubernetes/namespaces.ts'
import type { LeaseStore } from '../engine/lease-store.ts'
import { checkName } from '../common/names.ts'
import { checkBoolean, checkStore } from '../engine/check-values.ts'
import { kubernetesStore } from '../stores/kubernetes/index.ts'
import type { LeaderElectorOptions, LeaseElectorOptions } from './leader-elector-options.ts'

/** Where the lease of a LeaderElector is kept, and the recorder of its Events. */
export interface LeaseBackend {
  readonly store: LeaseStore
  readonly events?: EventRecorder | undefined
  /** Closes the resources that were opened for this elector alone. */
  close(): Promise<void>
}

/**
 * Returns the store in the options, or creates one for their client. `report` receives errors of Events that could not
 * be written.
 */
export function leaseBackendOf(options: LeaderElectorOptions, report: (error: unknown) => void): LeaseBackend {
  if (options.client !== undefined) return onClient(options, report)
  const clients = 'inCluster(), fromKubeConfig() or a KubeConfig from @kubernetes/client-node'
  const { store, recordEvents }: { store: LeaseStore; recordEvents?: unknown } = options
  if (!('store' in options)) throw invalidOption('client', undefined, `it must be ${clients}, unless a store is given`)
  if (recordEvents) throw invalidOption('recordEvents', recordEvents, `it needs a client: ${clients}`)
  checkStore(store)
  return { store, close: async () => undefined }
}

function onClient(options: LeaseElectorOptions, report: (error: unknown) => void): LeaseBackend {
  const { leaseName, leaseNamespace, clock, recordEvents = false } = options
  if (options.store !== undefined) throw invalidOption('store', options.store, 'it cannot be combined with a client')
  checkName('leaseName', leaseName)
  checkName('leaseNamespace', leaseNamespace)
  checkBoolean('recordEvents', recordEvents)
  checkNamespace('leaseNamespace', leaseNamespace)
  const client = clientOf(options.client)
  // The value usually comes from `process.env.POD_NAMESPACE ?? 'default'`. If POD_NAMESPACE is not set, 'default' is
  // not a deliberate choice.
  const isNamed = leaseNamespace !== defaultNamespace || Boolean(process.env['POD_NAMESPACE'])
  if (!isNamed) adviseOnNamespace(client, 'leaseNamespace')
  const store = kubernetesStore({ client, namespace: isNamed ? leaseNamespace : undefined, clock })
  const events = recordEvents ? new EventRecorder(client, clock ?? systemClock, report) : undefined
  return {
    store,
    events,
    async close() {
      await events?.settled()
      await store.close?.()
    },
  }
}
