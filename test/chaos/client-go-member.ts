import { setTimeout as delay } from 'node:timers/promises'
import { startClientGo, type ClientGo, type ClientGoEvent } from '../servers/client-go.ts'
import type { Cluster } from '../servers/cluster.ts'
import type { Entry, Life } from './check.ts'
import type { Fleet } from './fleet.ts'
import type { LeaseHistory } from './lease-history.ts'

/** How it is told to end, and when, in nanoseconds of the fleet's clock. */
export interface Order {
  readonly end: 'killed' | 'stopped'
  readonly at: number
}

export const clientGoTimings = { leaseDurationMs: 3_000, renewDeadlineMs: 2_000, retryPeriodMs: 400 }

/**
 * A place for client-go in a fleet: one process at a time, each with a name of its own, because client-go takes a lease
 * that bears its name for its own, without a new term.
 */
export class ClientGoMember {
  isBusy = false
  readonly #lives: { readonly peer: ClientGo; order: Order | undefined }[] = []
  readonly #fleet: Fleet
  readonly #cluster: Cluster
  readonly #history: LeaseHistory
  readonly #name: string

  constructor(fleet: Fleet, cluster: Cluster, history: LeaseHistory, name: string) {
    this.#fleet = fleet
    this.#cluster = cluster
    this.#history = history
    this.#name = name
  }

  /** The term it leads, as far as it is known here. */
  get term(): number | undefined {
    const running = this.#running
    const told = running?.peer.events.findLast(({ event }) => event !== 'new-leader')
    return told?.event === 'started' ? told.transitions : undefined
  }

  start(): void {
    const { url: server, caFile, adminToken: token } = this.#cluster
    const identity = `${this.#name}-${this.#lives.length + 1}`
    const lease = this.#fleet.election
    const peer = startClientGo({ server, caFile, token, lease, identity, ...clientGoTimings })
    this.#lives.push({ peer, order: undefined })
  }

  /** Resolves when it has seen who leads. */
  async standsBy(): Promise<void> {
    await this.#running?.peer.first('new-leader')
  }

  async kill(): Promise<void> {
    await this.#end('killed', 'SIGKILL')
  }

  /**
   * It is told to end, and releases the lease if it leads. Its release trusts what it saw last, and would erase a
   * successor's lease: so it is told only when it has just renewed.
   */
  async stop(): Promise<void> {
    const { peer } = this.#running ?? {}
    if (!peer) return
    if (this.term !== undefined) {
      await this.#history.next(({ holder }) => holder === peer.identity, clientGoTimings.leaseDurationMs)
    }
    await this.#end('stopped', 'SIGTERM')
  }

  /** SIGSTOP and SIGCONT. Too short for others to see its lease run out: it would not notice that itself. */
  async pause(ms: number): Promise<void> {
    const { peer } = this.#running ?? {}
    peer?.pause()
    await delay(ms)
    peer?.resume()
  }

  lives(): Life[] {
    return this.#lives.map(({ peer, order }) => {
      const entries = clientGoEntries(peer.events, order, this.#fleet.originNs)
      return { identity: peer.identity, pid: peer.pid, end: order?.end ?? 'by itself', entries }
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

/**
 * What a process of client-go told, in the words of a candidate's log.
 *
 * It leads from `started` to `stopped`, or to its death. Told to end, it releases the lease before it tells that it has
 * stopped, so it counts as leading only until it was told.
 */
export function clientGoEntries(
  events: readonly Omit<ClientGoEvent, 'identity'>[],
  order: Order | undefined,
  originNs = 0n,
): Entry[] {
  const entries: Entry[] = []
  const toldAt = order?.at ?? Infinity
  let reign: { readonly term: number; readonly from: number } | undefined
  const end = (at: number) => {
    if (reign && at >= reign.from) entries.push({ kind: 'belief', term: reign.term, from: at, to: at })
  }
  for (const { event, transitions = 0, monotonicMs } of events) {
    const at = monotonicMs * 1e6 - Number(originNs)
    if (event === 'started') {
      reign = { term: transitions, from: at }
      entries.push({ kind: 'elected', term: transitions, at })
      if (at <= toldAt) end(at)
    }
    if (event === 'stopped' && reign) {
      end(Math.min(at, toldAt))
      const reason = at < toldAt ? 'expired' : 'stopped'
      entries.push({ kind: 'lost', term: reign.term, reason, at, clean: true })
      reign = undefined
    }
  }
  if (order) end(order.at)
  if (order?.end === 'stopped') entries.push({ kind: 'stopped', at: order.at })
  return entries
}
