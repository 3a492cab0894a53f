import type { Clock } from 'tenure'
import type { KubernetesClient } from 'tenure/kubernetes'
import { postEvent, resourceType } from 'tenure/internal/multicluster'
import type { LeadershipReport } from '../calls/observer.ts'

/** Options of {@link leadershipEvents}. */
export interface EventsOptions {
  readonly client: KubernetesClient
  readonly identity: string
  readonly clock: Clock
  report(error: unknown): void
}

const timeoutMs = 5_000
/**
 * At most this many Events wait for a slow API server. Further Events are dropped, because elections do not depend on
 * them.
 */
const mostWaiting = 1_000

/** Writes changes of leadership as Events about the resource, one at a time. */
export function leadershipEvents({ client, identity, clock, report }: EventsOptions) {
  const signal = new AbortController().signal
  let last = Promise.resolve()
  let waiting = 0
  return (change: LeadershipReport): void => {
    const words = wordsFor(change)
    if (!words || waiting >= mostWaiting) return
    const [reason, message] = words
    waiting += 1
    const { namespace, name, uid } = change
    const about = {
      apiVersion: `${resourceType.group}/${resourceType.version}`,
      kind: resourceType.kind,
      namespace,
      name,
      uid,
    }
    const said = { type: 'Normal', reason, message, component: 'tenure-controller', host: identity } as const
    const advice = 'Elections work without Events. Bind the Role of deploy/multicluster to the controller.'
    const event = { about, ...said, wallMs: clock.wallMs(), advice }
    last = last
      .then(() => postEvent(client, event, { signal, timeoutMs }))
      .catch(report)
      .finally(() => (waiting -= 1))
  }
}

function wordsFor({
  change,
  identity,
  term,
}: LeadershipReport): readonly [reason: string, message: string] | undefined {
  switch (change) {
    case 'elected':
      return ['Elected', `"${identity}" of this cluster leads in term ${term}.`]
    case 'released':
      return ['Released', `"${identity}" of this cluster released term ${term}.`]
    case 'lost':
      return ['Lost', `"${identity}" of this cluster no longer leads: term ${term} has ended.`]
    case 'moved':
      return identity === '' ? undefined : ['Moved', `"${identity}" leads in term ${term}.`]
  }
}
