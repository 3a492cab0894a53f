import { systemClock, type Clock } from '../clock.ts'
import type { ElectionEvent } from '../events.ts'
import { ApiError } from './api-error.ts'
import type { KubernetesClient } from './client.ts'

const timeoutMs = 5_000

/** Writes what happens to a replica as Kubernetes Events about its Lease, with the words that client-go uses. */
export class EventRecorder {
  readonly #client: KubernetesClient
  readonly #lease: { readonly namespace: string; readonly name: string }
  readonly #identity: string
  readonly #clock: Clock
  readonly #report: (error: unknown) => void
  #sent: Promise<void> = Promise.resolve()

  constructor(options: {
    readonly client: KubernetesClient
    readonly leaseNamespace: string
    readonly leaseName: string
    readonly identity: string
    readonly clock: Clock | undefined
    report(error: unknown): void
  }) {
    this.#client = options.client
    this.#lease = { namespace: options.leaseNamespace, name: options.leaseName }
    this.#identity = options.identity
    this.#clock = options.clock ?? systemClock
    this.#report = (error) => options.report(error)
  }

  on(event: ElectionEvent): void {
    if (event.type === 'elected') this.#write('became leader')
    if (event.type === 'lost') this.#write('stopped leading')
  }

  /** Resolves when all has been written, or was given up. */
  settled(): Promise<void> {
    return this.#sent
  }

  #write(what: string): void {
    const at = new Date(this.#clock.wallMs()).toISOString().replace(/\.\d+Z$/, 'Z')
    // One after the other, so that they arrive in order; each has its deadline, so that none holds up the rest for long.
    this.#sent = this.#sent.then(() => this.#post(what, at)).catch(this.#report)
  }

  async #post(what: string, at: string): Promise<void> {
    const { namespace, name } = this.#lease
    const answer = await this.#client.request({
      method: 'POST',
      path: `/api/v1/namespaces/${namespace}/events`,
      signal: new AbortController().signal,
      timeoutMs,
      body: {
        apiVersion: 'v1',
        kind: 'Event',
        metadata: { generateName: `${name}.`, namespace },
        involvedObject: { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', namespace, name },
        type: 'Normal',
        reason: 'LeaderElection',
        message: `${this.#identity} ${what}`,
        source: { component: 'tenure', host: this.#identity },
        firstTimestamp: at,
        lastTimestamp: at,
        count: 1,
      },
    })
    if (answer.status !== 201) throw new ApiError(`Cannot create an Event in "${namespace}"`, answer)
  }
}
