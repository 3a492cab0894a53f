import { dirname } from 'node:path'
import { expect, test, vi } from 'vitest'
import { Elector } from '../../packages/tenure/src/engine/elector.ts'
import type { ElectionEvent, Observer } from '../../packages/tenure/src/engine/events.ts'
import { KubernetesClient } from '../../packages/tenure/src/clients/kubernetes/client.ts'
import { LeaderElector } from '../../packages/tenure/src/api/leader-elector.ts'
import type { LeaseElectorOptions } from '../../packages/tenure/src/api/leader-elector-options.ts'
import type { Leadership } from '../../packages/tenure/src/engine/leadership.ts'
import { kubernetesStore } from '../../packages/tenure/src/stores/kubernetes/index.ts'
import type { ApiServer } from '../servers/cluster.ts'
import { startProxy, type Proxy } from '../servers/proxy.ts'
import { nowMs, overlaps, type Belief } from './beliefs.ts'
import { startApiServerProxy, type ApiServerProxy } from './api-server-proxy.ts'

export { nowMs } from './beliefs.ts'

/** Short, but with slack for a busy machine. */
export const timings = { leaseDurationMs: 3_000, renewDeadlineMs: 2_000, retryPeriodMs: 400 }
/** How much later than planned an event may happen on a busy machine. */
export const slackMs = 1_000
/** How much earlier an event may appear to happen, because leases count from the request, but tests observe answers. */
export const roundTripMs = 500

/** A Lease as it is stored. */
export interface Lease {
  readonly metadata: {
    readonly resourceVersion: string
    readonly labels?: Record<string, string>
    readonly annotations?: Record<string, string>
  }
  readonly spec: {
    readonly holderIdentity?: string
    readonly leaseDurationSeconds?: number
    readonly acquireTime?: string
    readonly renewTime?: string
    readonly leaseTransitions?: number
    /** Used by coordinated leader election. */
    readonly strategy?: string
    readonly preferredHolder?: string
  }
}

/** An event of an elector, and when it was reported. */
export type TimedEvent = ElectionEvent & { readonly atMs: number }

/** One LeaderElector of a test, with everything that it reported. */
export interface Replica {
  readonly identity: string
  readonly elector: LeaderElector
  /** The calls of its callbacks, in order. */
  readonly callbackCalls: string[]
  readonly events: TimedEvent[]
  /** The leadership that its callback received last. */
  leadership(): Leadership | undefined
  /** Whether `run` has returned. */
  readonly hasReturned: boolean
  readonly run: Promise<void>
  readonly signal: AbortSignal
  abort(): void
}

/** Where a client connects, and as which user. */
export interface Via {
  readonly port?: number | undefined
  /** Called for each request. Default: the admin's token. */
  readonly token?: (() => string) | undefined
}

type ReplicaOptions = Partial<Omit<LeaseElectorOptions, 'callbacks' | 'client'>> & {
  readonly via?: Via
  readonly client?: KubernetesClient
  readonly once?: boolean
  readonly work?: (signal: AbortSignal, leadership: Leadership) => Promise<void> | void
  /** Additional actions of an observer besides recording events. */
  readonly onEvent?: () => unknown
}

interface ElectorOptions {
  readonly client?: KubernetesClient
  readonly election?: string
  readonly observer?: Observer
}

let scenes = 0

/** A test with its own Lease. Everything that it opens is closed when it ends. */
export const sceneTest = <Server extends ApiServer>(cluster: () => Server) =>
  test.extend<{ scene: Scene<Server> }>({
    // oxlint-disable-next-line no-empty-pattern
    scene: async ({}, use) => {
      const scene = new Scene(cluster())
      await use(scene)
      await scene.end()
    },
  })

/** One Lease and the candidates for it. */
export class Scene<Server extends ApiServer = ApiServer> {
  readonly cluster: Server
  readonly leaseName = `lease-${++scenes}`
  readonly beliefs: Belief[] = []
  /** Set in tests in which somebody manually takes the lease away from a leader. */
  mayOverlap = false
  readonly #path: string
  readonly #ends: (() => Promise<unknown> | void)[] = []

  constructor(cluster: Server) {
    this.cluster = cluster
    this.#path = `/apis/coordination.k8s.io/v1/namespaces/${cluster.namespace}/leases/${this.leaseName}`
  }

  client({ port = this.cluster.port, token = () => this.cluster.adminToken }: Via = {}): KubernetesClient {
    const { ca } = this.cluster
    return new KubernetesClient({
      server: `https://127.0.0.1:${port}`,
      credentials: () => ({ authorization: `Bearer ${token()}`, tls: { ca } }),
    })
  }

  async proxy(): Promise<Proxy> {
    const proxy = await startProxy(this.cluster.port)
    this.onEnd(() => proxy.stop())
    return proxy
  }

  async front(): Promise<ApiServerProxy> {
    const front = await startApiServerProxy(this.cluster, nowMs)
    this.onEnd(() => front.stop())
    return front
  }

  /** Starts a LeaderElector. Default: as the admin, with the short timings. */
  replica(identity: string, options: ReplicaOptions = {}): Replica {
    const { via, once = false, work, onEvent, client = this.client(via), ...more } = options
    const callbackCalls: string[] = []
    const events: TimedEvent[] = []
    const controller = new AbortController()
    let leadership: Leadership | undefined
    let belief: Belief | undefined
    const elector = new LeaderElector({
      client,
      leaseName: this.leaseName,
      leaseNamespace: this.cluster.namespace,
      identity,
      ...timings,
      drainTimeoutMs: 1_000,
      observer: {
        onEvent: (event) => {
          const noted = { ...event, atMs: nowMs() }
          events.push(noted)
          if (event.type === 'elected') belief = this.#believe(noted.identity, event.term, noted.atMs)
          return onEvent?.()
        },
      },
      ...more,
      callbacks: {
        async onStartedLeading(signal, given) {
          leadership = given
          callbackCalls.push(`started ${given.term}`)
          const started = belief
          const note = () => void (started && (started.toMs = nowMs()))
          if (signal.aborted) note()
          else signal.addEventListener('abort', note, { once: true })
          await work?.(signal, given)
          callbackCalls.push('work ends')
        },
        onStoppedLeading: () => void callbackCalls.push('stopped'),
        onNewLeader: (leader) => void callbackCalls.push(`leader ${leader}`),
      },
    })
    const replica = {
      identity,
      elector,
      callbackCalls,
      events,
      leadership: () => leadership,
      hasReturned: false,
      run: elector.run({ signal: controller.signal, once }).then(() => void (replica.hasReturned = true)),
      signal: controller.signal,
      abort: () => controller.abort(),
    }
    this.onEnd(() => {
      replica.abort()
      return replica.run
    })
    return replica
  }

  /** Starts an Elector with the short timings. Default: on its own client. */
  elector(identity: string, { client = this.client(), election = this.leaseName, observer }: ElectorOptions = {}) {
    const events: TimedEvent[] = []
    const { retryPeriodMs: retryIntervalMs, ...same } = timings
    const store = kubernetesStore({ client, namespace: this.cluster.namespace })
    const onEvent = (event: ElectionEvent) => {
      const noted = { ...event, atMs: nowMs() }
      events.push(noted)
      if (event.type !== 'elected') return
      const belief = this.#believe(identity, event.term, noted.atMs)
      void elector.waitForLeadership().then(({ signal }) => {
        const end = () => void (belief.toMs = nowMs())
        if (signal.aborted) end()
        else signal.addEventListener('abort', end, { once: true })
      })
    }
    const elector = new Elector({
      store,
      election,
      identity,
      retryIntervalMs,
      ...same,
      observer: { ...observer, onEvent },
    })
    elector.start()
    this.onEnd(() => elector.stop())
    return { identity, elector, events, store }
  }

  #believe(identity: string, term: number, fromMs: number): Belief {
    const belief = { identity, term, fromMs, toMs: Infinity }
    this.beliefs.push(belief)
    return belief
  }

  lease(): Promise<Lease> {
    return this.#ask('GET', this.#path)
  }

  /** Patches the Lease as a user of kubectl would. */
  patch(change: object): Promise<Lease> {
    return this.#ask('PATCH', this.#path, change)
  }

  createLease(spec: Lease['spec']): Promise<Lease> {
    const body = { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata: { name: this.leaseName }, spec }
    return this.#ask('POST', dirname(this.#path), body)
  }

  async deleteLease(): Promise<void> {
    await this.#ask('DELETE', this.#path)
  }

  /** Returns the Kubernetes Events about the Lease, in the order in which they were written. */
  async kubernetesEvents() {
    const query = new URLSearchParams({ fieldSelector: `involvedObject.name=${this.leaseName}` })
    const list = await this.#ask<{
      items: {
        metadata: { resourceVersion: string }
        involvedObject: Record<string, string>
        reason: string
        message: string
        type: string
      }[]
    }>('GET', `/api/v1/namespaces/${this.cluster.namespace}/events?${query.toString()}`)
    return list.items.sort(
      (one, other) => Number(one.metadata.resourceVersion) - Number(other.metadata.resourceVersion),
    )
  }

  /** Returns a service account that has only these verbs on leases. */
  async account(verbs: readonly string[]) {
    const name = this.leaseName
    const { namespace } = this.cluster
    const accounts = `/api/v1/namespaces/${namespace}/serviceaccounts`
    const rbac = `/apis/rbac.authorization.k8s.io/v1/namespaces/${namespace}`
    const rules = [{ apiGroups: ['coordination.k8s.io'], resources: ['leases'], verbs }]
    await this.#ask('POST', `${rbac}/roles`, { metadata: { name }, rules })
    const isAllowed = () => this.#isAllowed(`system:serviceaccount:${namespace}:${name}`, 'get')
    let token = ''
    const account = {
      via: { token: () => token },
      /** Creates the service account, and a token for it. */
      create: async () => {
        await this.#ask('POST', accounts, { metadata: { name } })
        const spec = { expirationSeconds: 600 }
        const answer = await this.#ask<{ status: { token: string } }>('POST', `${accounts}/${name}/token`, { spec })
        token = answer.status.token
      },
      /** Removes the account, which invalidates its token. */
      remove: () => this.#ask('DELETE', `${accounts}/${name}`),
      grant: async () => {
        await this.#ask('POST', `${rbac}/rolebindings`, {
          metadata: { name },
          roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name },
          subjects: [{ kind: 'ServiceAccount', name, namespace }],
        })
        // The authorizer learns about it through a watch.
        await this.until(isAllowed)
      },
      withdraw: async () => {
        await this.#ask('DELETE', `${rbac}/rolebindings/${name}`)
        await this.until(async () => !(await isAllowed()))
      },
    }
    await account.create()
    await account.grant()
    return account
  }

  async #isAllowed(user: string, verb: string): Promise<boolean> {
    const { namespace } = this.cluster
    const resourceAttributes = { namespace, verb, group: 'coordination.k8s.io', resource: 'leases' }
    const review = await this.#ask<{ status: { allowed: boolean } }>(
      'POST',
      '/apis/authorization.k8s.io/v1/subjectaccessreviews',
      { spec: { user, resourceAttributes } },
    )
    return review.status.allowed
  }

  async #ask<Body = Lease>(method: string, path: string, body?: unknown): Promise<Body> {
    const answer = await this.cluster.admin.request<Body>(method, path, body)
    if (answer.status < 300) return answer.body
    throw new Error(`${method} ${path} returned ${answer.status} ${JSON.stringify(answer.body)}`)
  }

  /** Waits until a value is truthy, and returns it. */
  async until<T>(
    condition: () => T | Promise<T>,
    timeoutMs = 20_000,
  ): Promise<Exclude<T, false | undefined | null | ''>> {
    const found = await vi.waitUntil(condition, { timeout: timeoutMs, interval: 5 })
    return found as Exclude<T, false | undefined | null | ''>
  }

  /** Resolves with the next event of this type, or with the first after `laterThanMs`. */
  event<Type extends TimedEvent['type']>(
    { events }: { readonly events: readonly TimedEvent[] },
    type: Type,
    laterThanMs = -Infinity,
    timeoutMs?: number,
  ): Promise<Extract<TimedEvent, { type: Type }>> {
    const isIt = (event: TimedEvent): event is Extract<TimedEvent, { type: Type }> =>
      event.type === type && event.atMs > laterThanMs
    return this.until(() => events.find(isIt), timeoutMs)
  }

  /** Registers a cleanup. The last one registered runs first. */
  onEnd(end: () => Promise<unknown> | void): void {
    this.#ends.unshift(end)
  }

  async end(): Promise<void> {
    for (const end of this.#ends) await end()
    if (!this.mayOverlap) expect(overlaps(this.beliefs)).toEqual([])
  }
}

/**
 * Returns the calls of its callbacks, except for reports that there is no leader, because on a busy machine any
 * handover can take that long.
 */
export function callbackCallsOf({ callbackCalls }: Pick<Replica, 'callbackCalls'>): string[] {
  return callbackCalls.filter((text) => text !== 'leader ')
}

/** Returns when a replica last learned that it holds the lease, before its first loss. */
export function lastConfirmedMs({ events }: { readonly events: readonly TimedEvent[] }): number {
  const lost = events.findIndex(({ type }) => type === 'lost')
  const before = lost < 0 ? events : events.slice(0, lost)
  return before.findLast(({ type }) => type === 'elected' || type === 'renewed')?.atMs ?? NaN
}

export const untilAborted = (signal: AbortSignal) =>
  new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))

export function within(ms: number, leastMs: number, mostMs: number): void {
  expect(ms).toBeGreaterThanOrEqual(leastMs)
  expect(ms).toBeLessThanOrEqual(mostMs)
}
