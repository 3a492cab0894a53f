import { setTimeout as delay } from 'node:timers/promises'
import { startClientGo, type ClientGo } from '../servers/client-go.ts'
import type { ApiServer } from '../servers/cluster.ts'
import type { ProcessLog } from './check-logs.ts'
import type { Fleet } from './fleet.ts'
import type { LeaseHistory } from './lease-history.ts'
import { type Order, clientGoEntries } from './client-go-entries.ts'

export const clientGoTimings = { leaseDurationMs: 3_000, renewDeadlineMs: 2_000, retryPeriodMs: 400 }

/**
 * A slot for client-go in a fleet, with one process at a time. Each process has a new name, because client-go treats a
 * lease with its own name as its own, without a new term.
 */
export class ClientGoMember {
  isBusy = false
  readonly #lives: { readonly peer: ClientGo; order: Order | undefined }[] = []
  readonly #fleet: Fleet
  readonly #cluster: ApiServer
  readonly #history: LeaseHistory
  readonly #name: string

  constructor(fleet: Fleet, cluster: ApiServer, history: LeaseHistory, name: string) {
    this.#fleet = fleet
    this.#cluster = cluster
    this.#history = history
    this.#name = name
  }

  /** The term that the process leads, as known to the test. */
  get term(): number | undefined {
    const running = this.#running
    const told = running?.peer.events.findLast(({ event }) => event !== 'new-leader')
    return told?.event === 'started' ? told.transitions : undefined
  }

  start(): void {
    const { url: server, caFile, adminToken: token, namespace } = this.#cluster
    const identity = `${this.#name}-${this.#lives.length + 1}`
    const lease = this.#fleet.election
    const peer = startClientGo({ server, caFile, token, namespace, lease, identity, ...clientGoTimings })
    this.#lives.push({ peer, order: undefined })
  }

  /** Resolves when it has seen a leader. */
  async standsBy(): Promise<void> {
    await this.#running?.peer.first('new-leader')
  }

  async kill(): Promise<void> {
    await this.#end('killed', 'SIGKILL')
  }

  /**
   * Asks the process to end, which releases the lease if it leads. client-go's release trusts the last state that it
   * saw and would erase a successor's lease, so this happens only right after a renewal.
   */
  async stop(): Promise<void> {
    const { peer } = this.#running ?? {}
    if (!peer) return
    if (this.term !== undefined) {
      await this.#history.next(({ holder }) => holder === peer.identity, clientGoTimings.leaseDurationMs)
    }
    await this.#end('stopped', 'SIGTERM')
  }

  /**
   * Sends SIGSTOP and SIGCONT. The pause is too short for others to see the lease expire, because client-go would not
   * notice its loss.
   */
  async pause(ms: number): Promise<void> {
    const { peer } = this.#running ?? {}
    peer?.pause()
    await delay(ms)
    peer?.resume()
  }

  lives(): ProcessLog[] {
    return this.#lives.map(({ peer, order }) => {
      const entries = clientGoEntries(peer.events, order, this.#fleet.originNs)
      return { identity: peer.identity, pid: peer.pid, end: order?.end ?? 'unexpectedly', entries }
    })
  }

  get #running() {
    const last = this.#lives.at(-1)
    return last?.order ? undefined : last
  }

  async #end(end: Order['end'], signal: NodeJS.Signals): Promise<void> {
    const running = this.#running
    if (!running) return
    running.order = { end, at: this.#fleet.now() }
    await running.peer.kill(signal)
  }
}
