import type { CallOptions } from '../engine/lease-store.ts'
import { ApiError } from '../clients/kubernetes/api-error.ts'
import type { KubernetesClient } from '../clients/kubernetes/client.ts'

/** An Event, as `kubectl get events` and `kubectl describe` show it. */
export interface KubernetesEvent {
  /** The object that the Event is about. */
  readonly about: {
    readonly apiVersion: string
    readonly kind: string
    readonly namespace: string
    readonly name: string
    readonly uid?: string | undefined
  }
  readonly type: 'Normal' | 'Warning'
  /** The reason of the Event, in CamelCase. */
  readonly reason: string
  readonly message: string
  /** The program that reports the Event, and the replica. */
  readonly component: string
  readonly host: string
  readonly wallMs: number
  /** What to do if the caller may not write Events. */
  readonly advice: string
}

/**
 * Writes an Event.
 *
 * @example
 * await postEvent(client, { about, type: 'Normal', reason: 'LeaderElected', message, component, host, wallMs, advice }, { signal })
 */
export async function postEvent(client: KubernetesClient, event: KubernetesEvent, call: CallOptions): Promise<void> {
  const { about, type, reason, message, component, host } = event
  const at = new Date(event.wallMs).toISOString().replace(/\.\d+Z$/, 'Z')
  const answer = await client.request({
    method: 'POST',
    path: `/api/v1/namespaces/${about.namespace}/events`,
    ...call,
    body: {
      apiVersion: 'v1',
      kind: 'Event',
      metadata: { generateName: `${about.name}.`, namespace: about.namespace },
      involvedObject: about,
      type,
      reason,
      message,
      source: { component, host },
      firstTimestamp: at,
      lastTimestamp: at,
      count: 1,
    },
  })
  if (answer.status === 201) return
  throw new ApiError(`Cannot create an Event in "${about.namespace}"`, answer, event.advice)
}
