import type { Clock } from '../common/clock.ts'
import type { ElectionEvent, Observer } from '../engine/events.ts'
import type { KubernetesClient } from '../clients/kubernetes/client.ts'
import { postEvent } from './post-event.ts'

const timeoutMs = 5_000
const advice =
  'The election continues without Events. Apply deploy/kubernetes/components/events, or turn recordEvents off.'
const messages: Partial<Record<ElectionEvent['type'], string>> = { elected: 'became leader', lost: 'stopped leading' }

/** An observer that writes Kubernetes Events about Leases, with the same messages as client-go. */
export class EventRecorder implements Observer {
  readonly #client: KubernetesClient
  readonly #clock: Clock
  readonly #report: (error: unknown) => void
  #sent: Promise<void> = Promise.resolve()

  constructor(client: KubernetesClient, clock: Clock, report: (error: unknown) => void) {
    this.#client = client
    this.#clock = clock
    this.#report = report
  }

  onEvent(event: ElectionEvent): void {
    const what = messages[event.type]
    if (what === undefined) return
    const wallMs = this.#clock.wallMs()
    // Events are sent one after another, so that they arrive in order. Each has a deadline, so that none delays the
    // rest for long.
    this.#sent = this.#sent.then(() => this.#post(event, what, wallMs)).catch((error: unknown) => this.#report(error))
  }

  /** Resolves once every Event has been written or abandoned. */
  settled(): Promise<void> {
    return this.#sent
  }

  #post({ election, namespace = '', identity }: ElectionEvent, what: string, wallMs: number): Promise<void> {
    const about = { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', namespace, name: election }
    const message = `${identity} ${what}`
    const source = { component: 'tenure', host: identity }
    return postEvent(
      this.#client,
      { about, type: 'Normal', reason: 'LeaderElection', message, ...source, wallMs, advice },
      { signal: new AbortController().signal, timeoutMs },
    )
  }
}
