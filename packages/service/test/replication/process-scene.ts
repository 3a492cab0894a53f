import { randomUUID } from 'node:crypto'
import { onTestFinished, vi } from 'vitest'
import type { Answer } from '../disk/service-process.ts'
import { activeOf, openReplicas, type ClusterOptions, type ReplicaProcess } from './replica-process.ts'

/** Running replicas, and the one that is active at first. */
export interface ProcessScene {
  readonly replicas: readonly ReplicaProcess[]
  readonly active: ReplicaProcess
  readonly followers: readonly [ReplicaProcess, ...ReplicaProcess[]]
}

/** Starts replicas with their own data and waits until one is active and all are ready. */
export async function startReplicas(options: ClusterOptions): Promise<ProcessScene> {
  const replicas = await openReplicas({ prefix: randomUUID(), ...options })
  await Promise.all(replicas.map((replica) => replica.start()))
  const active = await activeOf(replicas)
  const [first, ...others] = replicas.filter((replica) => replica !== active)
  if (!first) throw new Error('there are no followers')
  for (const replica of replicas) await answers(replica)
  return { replicas, active, followers: [first, ...others] }
}

/** Waits until a replica can make a write durable. Returns how long it took. */
export async function answers(replica: ReplicaProcess): Promise<number> {
  const askedMs = performance.now()
  const isReady = async () => (await replica.ask('GET', '/readyz', undefined, { timeoutMs: 3_000 }))?.status === 200
  await vi.waitUntil(isReady, { timeout: 30_000, interval: 10 })
  return performance.now() - askedMs
}

const post = (replica: ReplicaProcess, group: string, verb: string, body: object) =>
  replica.ask('POST', `/v1/groups/${group}/${verb}`, body)

export const campaign = (replica: ReplicaProcess, group: string, node_id: string, more: object = {}) =>
  post(replica, group, 'campaign', { node_id, lease_ttl_ms: 30_000, ...more })

export const renew = (replica: ReplicaProcess, group: string, node_id: string, term: number, extend_by_ms = 30_000) =>
  post(replica, group, 'renew', { node_id, term, extend_by_ms })

export const resign = (replica: ReplicaProcess, group: string, node_id: string, term: number) =>
  post(replica, group, 'resign', { node_id, term })

export const leader = (replica: ReplicaProcess, group: string) => replica.ask('GET', `/v1/groups/${group}/leader`)

/** The answer to a campaign that won. */
export const won = (term: number): Answer => ({ status: 200, body: { is_leader: true, leader: { term } } })

/** A client that keeps a lease and retries at once when a call is refused because no replica was able to answer. */
export class Keeper {
  readonly group: string
  readonly node: string
  /** How long each interruption lasted. */
  readonly refusedMs: number[] = []
  /** The answers that caused the client to lose its lease. */
  readonly lost: Answer[] = []
  renewals = 0
  readonly #pick: () => ReplicaProcess
  readonly #stop = new AbortController()
  #term = 0
  #running: Promise<void> | undefined

  constructor(group: string, pick: () => ReplicaProcess) {
    this.group = group
    this.node = `keeper of ${group}`
    this.#pick = pick
    onTestFinished(() => this.stop())
  }

  async start({ ttlMs, everyMs }: { readonly ttlMs: number; readonly everyMs: number }): Promise<void> {
    const answer = await campaign(this.#pick(), this.group, this.node, { lease_ttl_ms: ttlMs })
    if (answer?.body['is_leader'] !== true) throw new Error(`not granted: ${JSON.stringify(answer)}`)
    this.#term = (answer.body['leader'] as { term: number }).term
    this.#running = this.#keep(ttlMs, everyMs)
  }

  async stop(): Promise<void> {
    this.#stop.abort()
    await this.#running
  }

  async #keep(ttlMs: number, everyMs: number): Promise<void> {
    while (!this.#stop.signal.aborted) {
      const askedMs = performance.now()
      let wasRefused = false
      for (;;) {
        const answer = await renew(this.#pick(), this.group, this.node, this.#term, ttlMs)
        if (answer?.status === 200) break
        if (answer && answer.status < 500) return void this.lost.push(answer)
        wasRefused = true
        if (this.#stop.signal.aborted) return
        await new Promise((resolve) => setTimeout(resolve, 20))
      }
      this.renewals += 1
      if (wasRefused) this.refusedMs.push(performance.now() - askedMs)
      await new Promise((resolve) => setTimeout(resolve, everyMs))
    }
  }
}
