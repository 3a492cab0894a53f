import { request } from 'node:https'
import { createInterface } from 'node:readline'
import { setTimeout as delay } from 'node:timers/promises'
import type { ApiServer } from '../servers/cluster.ts'

/** The content of a Lease. */
export interface LeaseState {
  readonly version: string
  /** Empty if the Lease is not held. */
  readonly holder: string
  readonly term: number
}

/** The content of a Lease at one time. */
export interface SeenState extends LeaseState {
  /** When it was observed, on the clock of `performance.now()`. */
  readonly atMs: number
}

interface Lease {
  readonly metadata: { readonly resourceVersion: string }
  readonly spec: { readonly holderIdentity?: string; readonly leaseTransitions?: number }
}

/**
 * The history of one Lease, observed by a watch that shares no code with the library. States are missed while the
 * server is down.
 */
export class LeaseHistory {
  readonly states: SeenState[] = []
  readonly #cluster: ApiServer
  readonly #path: string
  readonly #closing = new AbortController()
  readonly #waiting = new Set<(state: SeenState) => void>()

  private constructor(cluster: ApiServer, lease: string) {
    this.#cluster = cluster
    const query = new URLSearchParams({ watch: '1', fieldSelector: `metadata.name=${lease}` })
    this.#path = `/apis/coordination.k8s.io/v1/namespaces/${cluster.namespace}/leases?${query.toString()}`
  }

  static open(cluster: ApiServer, lease: string): LeaseHistory {
    const history = new LeaseHistory(cluster, lease)
    void history.#follow()
    return history
  }

  /** Resolves with the first matching state that is observed from now on. */
  async next(isWanted: (state: SeenState) => boolean, withinMs: number): Promise<SeenState> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#waiting.delete(look)
        reject(new Error(`no matching state of the Lease was observed within ${withinMs} ms`))
      }, withinMs)
      const look = (state: SeenState) => {
        if (!isWanted(state)) return
        clearTimeout(timer)
        this.#waiting.delete(look)
        resolve(state)
      }
      this.#waiting.add(look)
    })
  }

  close(): void {
    this.#closing.abort()
  }

  async #follow(): Promise<void> {
    const { signal } = this.#closing
    while (!signal.aborted) {
      await this.#watch(signal).catch(() => {})
      await delay(50, undefined, { signal }).catch(() => {})
    }
  }

  #watch(signal: AbortSignal): Promise<void> {
    const { url, ca, adminToken } = this.#cluster
    return new Promise((resolve, reject) => {
      const headers = { authorization: `Bearer ${adminToken}` }
      request(new URL(this.#path, url), { ca, headers, agent: false, signal })
        .once('error', reject)
        .once('response', (response) => {
          response.once('error', reject)
          createInterface(response)
            .on('line', (line) => this.#note(line))
            .on('error', reject)
            .once('close', resolve)
        })
        .end()
    })
  }

  #note(line: string): void {
    const { type, object } = JSON.parse(line) as { readonly type: string; readonly object: Lease }
    if (type !== 'ADDED' && type !== 'MODIFIED') return
    const { metadata, spec } = object
    const version = metadata.resourceVersion
    // A watch that is opened again starts with the last observed state.
    if (this.states.at(-1)?.version === version) return
    const state = {
      version,
      holder: spec.holderIdentity ?? '',
      term: spec.leaseTransitions ?? 0,
      atMs: performance.now(),
    }
    this.states.push(state)
    for (const look of this.#waiting) look(state)
  }
}

/** Returns which holder followed which, after a release or after the lease expired. */
export function successionsOf(
  states: readonly LeaseState[],
): { readonly from: string; readonly to: string; readonly released: boolean }[] {
  const held = states.filter(({ holder }) => holder !== '')
  return held.slice(1).flatMap(({ holder: to, term }, index) => {
    const before = held[index]
    if (!before || before.term === term) return []
    const released = states.some((state) => state.term === before.term && state.holder === '')
    return { from: before.holder, to, released }
  })
}

/** Returns terms that decreased, had two holders, or were reused after a release. */
export function findTermViolations(states: readonly LeaseState[]): string[] {
  const found: string[] = []
  const holders = new Map<number, string>()
  let before: LeaseState | undefined
  let highest = -1
  for (const state of states) {
    const { term, holder, version } = state
    const former = holders.get(term) ?? holder
    if (term < highest) found.push(`version ${version} of the Lease went back from term ${highest} to ${term}`)
    if (holder !== '' && former !== holder)
      found.push(`term ${term} of the Lease was held by both ${former} and ${holder}`)
    if (holder !== '' && before?.holder === '' && holders.has(term)) {
      found.push(`term ${term} of the Lease was reused after its release`)
    }
    if (holder !== '') holders.set(term, former)
    highest = Math.max(highest, term)
    before = state
  }
  return found
}
