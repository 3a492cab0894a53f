/**
 * Three replicas of the service on three members of etcd, with proxied networks between them, and clients of all
 * replicas.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { onTestFinished } from 'vitest'
import { answerOf, takePart, type Ask } from '../../packages/service/test/clients.ts'
import { activeOf, openReplicas, type ReplicaProcess } from '../../packages/service/test/replication/replica-process.ts'
import type { Operation } from '../../packages/service/test/linearizable.ts'
import type { Random } from '../../packages/testing/src/simulation/random.ts'
import { startEtcdCluster, type EtcdCluster } from '../servers/etcd-cluster.ts'
import { programs } from '../servers/programs.ts'

/** How long a client waits for an answer before it asks another replica. */
const timeoutMs = 2_500

export interface ServiceClusterSetup {
  readonly etcd: EtcdCluster
  readonly replicas: readonly ReplicaProcess[]
}

export async function openScene(): Promise<ServiceClusterSetup> {
  const etcd = await startEtcdCluster(programs.etcd)
  onTestFinished(() => etcd.stop())
  const replicas = await openReplicas({ members: etcd.members.map(({ port }) => port) })
  await Promise.all(replicas.map((replica) => replica.start()))
  await activeOf(replicas)
  return { etcd, replicas }
}

/** Waits until every replica elects a leader in a new group. Returns how long that took. */
export async function allAnswer(replicas: readonly ReplicaProcess[], name: string): Promise<number> {
  const askedMs = performance.now()
  await Promise.all(
    replicas.map(async (replica, index) => {
      const body = { node_id: 'probe', lease_ttl_ms: 1_000, request_id: 'probe' }
      for (;;) {
        const got = await replica.ask('POST', `/v1/groups/probe-${name}-${index}/campaign`, body, { timeoutMs })
        if (got?.status === 200) return
        await delay(20)
      }
    }),
  )
  return performance.now() - askedMs
}

/** Clients that send requests to random replicas and record requests and answers by group. */
export class Clients {
  readonly history: ReadonlyMap<string, Operation[]>
  /** The losses of clients that hold a lease for a long time. */
  readonly losses: string[] = []
  /** The renewals of clients that hold a lease. */
  kept = 0
  /** Incremented with each fault. */
  life = 0
  /** Whether there are so many faults that clients may lose their leases. */
  mayLose = false
  readonly #replicas: readonly ReplicaProcess[]
  readonly #random: Random
  readonly #over = new AbortController()
  readonly #running: Promise<void>[]

  constructor(replicas: readonly ReplicaProcess[], random: Random, { busy = 24, keepers = 8, groups = 4 } = {}) {
    this.#replicas = replicas
    this.#random = random
    const names = Array.from({ length: groups }, (_, index) => `group-${index}`)
    const kept = Array.from({ length: keepers }, (_, index) => `kept-${index}`)
    this.history = new Map([...names, ...kept].map((group): [string, Operation[]] => [group, []]))
    this.#running = [
      ...Array.from({ length: busy }, (_, index) => this.#busy(index, names[index % groups] ?? '')),
      ...kept.map((group) => this.#keep(group)),
    ]
    onTestFinished(() => this.stop())
  }

  async stop(): Promise<void> {
    this.#over.abort()
    await Promise.all(this.#running)
  }

  get #isOver(): boolean {
    return this.#over.signal.aborted
  }

  #busy(index: number, group: string): Promise<void> {
    const node = `node-${index}`
    const part = { index, node, isOver: () => this.#isOver, life: () => this.life }
    return takePart({ ...part, ask: this.#asking(group, node) })
  }

  #asking(group: string, node: string): Ask {
    return async (call, body) => {
      const path = `/v1/groups/${group}/${call.type}`
      const replica = this.#random.pick(this.#replicas)
      const sentMs = performance.now()
      const got = await replica.ask(body ? 'POST' : 'GET', path, body && { node_id: node, ...body }, { timeoutMs })
      const answer = got && got.status < 500 ? answerOf(got) : undefined
      // A request without an answer may be applied at any time, by a replica that was paused or by etcd.
      const answeredMs = answer ? performance.now() : Infinity
      this.history.get(group)?.push({ sentMs, answeredMs, node, call, answer })
      await delay(answer ? 5 : 50)
      return answer
    }
  }

  /** Acquires a lease of 15 s and renews it every 5 s, as clients do by default. */
  async #keep(group: string): Promise<void> {
    const ttlMs = 15_000
    const ask = this.#asking(group, `keeper of ${group}`)
    while (!this.#isOver) {
      let untilMs = performance.now() + ttlMs
      const won = await ask({ type: 'campaign', ttlMs }, { lease_ttl_ms: ttlMs, instance_start_uuid: group })
      const term = won?.ok ? won.leader?.term : undefined
      if (term === undefined) continue
      for (;;) {
        await delay(ttlMs / 3, undefined, { signal: this.#over.signal }).catch(() => undefined)
        const sentMs = await this.#renewed(ask, term, ttlMs, untilMs)
        if (sentMs === undefined) break
        untilMs = sentMs + ttlMs
        this.kept += 1
      }
    }
  }

  /** Returns when the successful renewal was sent, or undefined if the lease was lost. */
  async #renewed(ask: Ask, term: number, ttlMs: number, untilMs: number): Promise<number | undefined> {
    while (!this.#isOver) {
      const sentMs = performance.now()
      const answer = await ask({ type: 'renew', term, ttlMs }, { term, extend_by_ms: ttlMs })
      if (answer?.ok) return sentMs
      if (!answer && performance.now() < untilMs) continue
      if (!this.mayLose) this.losses.push(`term ${term}: ${answer ? JSON.stringify(answer) : 'no answer in time'}`)
      return undefined
    }
    return undefined
  }
}
