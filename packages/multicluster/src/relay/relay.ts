/**
 * The relay of one cluster: it turns each request in a resource into one call to the global store, and writes the
 * answer into the resource's status. It holds no lease, believes nothing, and confirms nothing from memory.
 *
 * Why it is safe: a candidate counts from when it sent its request, which precedes the global call. From that call on,
 * every other contender waits for the whole duration. Ids, attempts, terms, and versions bind every answer to its
 * request. A relay that crashes, restarts, sleeps, or runs twice only causes calls that are late, lost, or duplicated,
 * which the port's contract covers. A stale relay cannot free anything, because a release names attempt, term, and
 * version.
 */
import type { Clock, LeaseStore } from 'tenure'
import {
  keepWatching,
  type MultiClusterLease,
  type ResourceChange,
  type Resources,
  type ResourceVersion,
} from 'tenure/internal/multicluster'
import type { RelayObserver } from '../calls/observer.ts'
import { Queue } from '../calls/call-queue.ts'
import { ResourceRelay } from './resource-relay.ts'
import { report, type SharedRelay } from '../calls/relay-context.ts'

/** Options of a {@link Relay}. */
export interface RelayOptions {
  readonly resources: Resources
  /** The global store. */
  readonly store: LeaseStore
  /** The name of this cluster. It must be unique among all clusters that share the store. */
  readonly cluster: string
  readonly clock: Clock
  /** Serves only resources in this namespace. Default: all namespaces. */
  readonly namespace?: string | undefined
  /** Whether this relay answers first. Other relays answer requests that stay unanswered. */
  readonly isFirst: () => boolean
  readonly observer?: RelayObserver | undefined
  /** How many calls to the global store may be in flight. Default: 64. */
  readonly callLimit?: number | undefined
  /** How many status writes may be in flight. Default: 32. */
  readonly writeLimit?: number | undefined
}

/** The current load of a relay. */
export interface RelayLoad {
  readonly resources: number
  readonly calls: { readonly running: number; readonly waiting: number }
  readonly writes: { readonly running: number; readonly waiting: number }
}

/** Relays all resources of a cluster, from `start()` to `stop()`. */
export class Relay {
  readonly #options: RelayOptions
  readonly #shared: SharedRelay
  readonly #relays = new Map<string, ResourceRelay>()
  readonly #ended = new AbortController()
  #isHealthy = true
  #isSynced = false
  #running: Promise<void> | undefined

  constructor(options: RelayOptions) {
    this.#options = options
    const { resources, store, cluster, clock, isFirst, observer = {} } = options
    this.#shared = {
      resources,
      store,
      cluster,
      clock,
      isFirst,
      observer,
      calls: new Queue(options.callLimit ?? 64),
      writes: new Queue(options.writeLimit ?? 32),
      backend: {
        noteAnswer: () => this.#noteHealth(true),
        noteFailure: (error) => this.#noteHealth(false, error),
      },
    }
  }

  start(): void {
    this.#running ??= this.#follow()
  }

  async stop(): Promise<void> {
    this.#ended.abort()
    for (const relay of this.#relays.values()) relay.stop()
    this.#relays.clear()
    await this.#running
  }

  /** Whether the relay has seen all resources and is watching them now. */
  get isSynced(): boolean {
    return this.#isSynced
  }

  /** Whether the global store answered the latest call. */
  get isBackendHealthy(): boolean {
    return this.#isHealthy
  }

  load(): RelayLoad {
    const { calls, writes } = this.#shared
    return {
      resources: this.#relays.size,
      calls: { running: calls.running, waiting: calls.waiting },
      writes: { running: writes.running, waiting: writes.waiting },
    }
  }

  async #follow(): Promise<void> {
    const { resources, namespace, clock } = this.#options
    const { signal } = this.#ended
    const onEnd = (error: unknown) => {
      this.#isSynced = false
      report(() => this.#shared.observer.onError?.(error, 'watching the resources'))
    }
    const scope = namespace === undefined ? {} : { namespace }
    const isKnown = (version: ResourceVersion) => this.#relays.get(idOf(version))?.isAt(version) === true
    const watching = keepWatching(resources, scope, { clock, signal, report: onEnd, isKnown })
    for await (const change of watching) this.#take(change)
  }

  #take(change: ResourceChange): void {
    if (change.type === 'all') return this.#takeAll(change.resources)
    if (change.type === 'put') this.#see(change.resource, false)
    else this.#takeDeletion(change.resource)
  }

  /** Ends the relay of a deleted resource, but not of a recreated one, because a deletion may be shown twice. */
  #takeDeletion(resource: MultiClusterLease): void {
    const id = idOf(resource)
    const uid = this.#relays.get(id)?.uid
    if (uid === undefined || uid === resource.uid) this.#drop(id)
  }

  #takeAll(resources: readonly MultiClusterLease[]): void {
    const there = new Set(resources.map((resource) => idOf(resource)))
    for (const id of this.#relays.keys()) if (!there.has(id)) this.#drop(id)
    for (const resource of resources) this.#see(resource, true)
    this.#isSynced = true
  }

  #see(resource: MultiClusterLease, isCurrent: boolean): void {
    const id = idOf(resource)
    const relay = this.#relays.get(id)
    try {
      if (relay) relay.see(resource, isCurrent)
      else this.#relays.set(id, new ResourceRelay(this.#shared, resource))
    } catch (error) {
      // An error in one resource must not end the watch of all resources.
      report(() => this.#shared.observer.onError?.(error, 'reading a resource'))
    }
  }

  #drop(id: string): void {
    this.#relays.get(id)?.stop()
    this.#relays.delete(id)
  }

  #noteHealth(healthy: boolean, error?: unknown): void {
    if (this.#isHealthy === healthy) return
    this.#isHealthy = healthy
    report(() => this.#shared.observer.onBackend?.({ healthy, ...(error !== undefined && { error }) }))
  }
}

function idOf({ namespace, name }: { readonly namespace: string; readonly name: string }): string {
  return `${namespace}/${name}`
}
