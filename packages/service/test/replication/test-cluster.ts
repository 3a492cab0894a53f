/** Replicas on one storage in one process, with real connections between them. The test decides which one is active. */
import type { Clock } from 'tenure'
import { onTestFinished } from 'vitest'
import { systemClock } from '../../src/common/clock.ts'
import * as clusterGroups from '../../src/replication/cluster-groups.ts'
import { ClusterReplicas } from '../../src/replication/cluster-replicas.ts'
import * as linkServer from '../../src/replication/peer-server.ts'
import type { ActiveReplica, ActiveReplicaSource } from '../../src/replication/active-replica.ts'
import * as terms from '../../src/replication/term-announcements.ts'
import * as errors from '../../src/common/errors.ts'
import { FairQueue } from '../../src/common/fair-queue.ts'
import type { Authority } from '../../src/groups/group-driver.ts'
import type { CampaignClaim } from '../../src/groups/port.ts'
import * as localGroups from '../../src/groups/local-groups.ts'
import { ServingClock } from '../../src/groups/serving-clock.ts'
import { positionOf } from '../../src/storage/position.ts'
import * as hubs from '../../src/watch/hub.ts'
import { startProxy, type Proxy } from '../../../../test/servers/proxy.ts'
import { batchAfter } from '../storage/data-directories.ts'
import { MemoryStorage } from '../storage/memory-storage.ts'

/** The modules that replicas are made of: those of the service, or of a mutant. */
export const modules = { clusterGroups, linkServer, terms, errors, localGroups, hubs }
export type Modules = typeof modules

type ClusterGroups = clusterGroups.ClusterGroups
type LocalGroups = localGroups.LocalGroups

/** The known active replica, as the test sets it. */
export class TestPlaces implements ActiveReplicaSource {
  /** Called with each term that the election reports. */
  onTerm: ((term: number) => void) | undefined
  #place: ActiveReplica = { kind: 'unknown' }
  #waiting = new Set<() => void>()

  now(): ActiveReplica {
    return this.#place
  }

  /** The term of the known active replica, or 0. */
  get term(): number {
    return this.#place.kind === 'unknown' ? 0 : this.#place.term
  }

  set(place: ActiveReplica): void {
    this.#place = place
    if (place.kind !== 'unknown') this.onTerm?.(place.term)
    for (const wake of this.#waiting) wake()
  }

  changed(known: ActiveReplica, signal: AbortSignal): Promise<void> {
    if (known !== this.#place || signal.aborted) return Promise.resolve()
    return new Promise((resolve) => {
      const wake = () => {
        this.#waiting.delete(wake)
        signal.removeEventListener('abort', wake)
        resolve()
      }
      this.#waiting.add(wake)
      signal.addEventListener('abort', wake)
    })
  }
}

/** An authority that may answer until the test ends it. */
class TestAuthority implements Authority {
  isOver = false
  readonly #errors: typeof errors

  constructor(given: typeof errors) {
    this.#errors = given
  }

  isProven(): boolean {
    return !this.isOver
  }

  assert(): void {
    if (this.isOver) throw new this.#errors.ServiceError('BACKEND_UNAVAILABLE', 'This replica is no longer active.')
  }

  async waitUntilProven(): Promise<void> {
    this.assert()
  }

  async verify(): Promise<void> {
    this.assert()
  }

  isLost(): boolean {
    return this.isOver
  }

  async stop(): Promise<void> {}
}

export interface ReplicaOptions {
  readonly clock?: Clock
  readonly groups?: Partial<localGroups.LocalGroupsOptions>
  readonly server?: Partial<linkServer.PeerServerOptions>
  readonly client?: Partial<clusterGroups.ClusterGroupsOptions>
  readonly modules?: Modules
  /** Followers receive no changes before this resolves. */
  readonly streaming?: Promise<void>
}

export interface Replica {
  readonly name: string
  readonly address: string
  readonly places: TestPlaces
  /** The proxy between the followers and this replica. */
  readonly proxy: Proxy
  readonly terms: terms.TermAnnouncements
  readonly groups: ClusterGroups
  readonly hub: hubs.Hub
  readonly server: linkServer.PeerServer
  readonly replicas: ClusterReplicas
  /** The higher terms that this replica learned from others. */
  readonly higher: number[]
  authority: TestAuthority | undefined
  local: LocalGroups | undefined
}

export const policy = { minTtlMs: 1_000, maxTtlMs: 60_000 }

export class TestCluster {
  readonly storage: MemoryStorage
  readonly replicas: Replica[] = []
  readonly #options: ReplicaOptions
  #term = 0

  constructor(storage: MemoryStorage, options: ReplicaOptions) {
    this.storage = storage
    this.#options = options
  }

  get term(): number {
    return this.#term
  }

  async add(more: ReplicaOptions = {}): Promise<Replica> {
    const { clock = systemClock, server: forServer, client, streaming } = { ...this.#options, ...more }
    const { modules: made = modules } = this.#options
    const head = await this.storage.head()
    const places = new TestPlaces()
    const higher: number[] = []
    const ended = new AbortController()
    const known = new made.terms.TermAnnouncements({
      clock,
      retryMs: 100,
      signal: ended.signal,
      headTerm: async () => (await this.storage.head()).term,
      recordTerm: () => places.term,
      onHigher(term) {
        if (term > places.term) higher.push(term)
      },
      onForgotten() {},
    })
    places.onTerm = (term) => known.found(term)
    const shared = { clusterId: head.clusterId, secret: () => head.secret, activeReplicas: places, terms: known, clock }
    const position = positionOf(head)
    // The port is known only once the server listens.
    const self = { replica: `replica-${this.replicas.length}`, address: '' }
    const groups = new made.clusterGroups.ClusterGroups({ ...shared, position, self, ...client })
    const fairQueue = new FairQueue()
    const budget = { deliver: () => true, work: () => {} }
    const hub = new made.hubs.Hub(groups, {
      secret: head.secret,
      position,
      maxWatchers: 1_000,
      fairQueue,
      budget,
    })
    const { changes } = groups
    const server = new made.linkServer.PeerServer({
      ...shared,
      port: 0,
      fairQueue,
      budget,
      changes: {
        feed: hub.feed,
        listen: (follower) => groups.listen(follower),
        textsOf: (groupId, term) => groups.textsOf(groupId, term),
        async whenFrom(place) {
          await streaming
          return changes.whenFrom(place)
        },
      },
      active() {
        const place = places.now()
        return place.kind === 'local' ? { ...self, term: place.term, sinceMs: clock.wallMs() } : undefined
      },
      ...forServer,
    })
    const proxy = await startProxy(await server.listen())
    const address = `http${forServer?.tls ? 's' : ''}://127.0.0.1:${proxy.port}`
    self.address = address
    const replicas = new ClusterReplicas({
      self,
      kind: 'etcd',
      activeReplicas: places,
      storage: this.storage,
      server: () => server,
      clientFor: (place) => groups.clientFor(place),
      checkGroups: () => groups.check(),
    })
    groups.start()
    const replica: Replica = {
      name: self.replica,
      address,
      places,
      proxy,
      terms: known,
      groups,
      hub,
      server,
      replicas,
      higher,
      authority: undefined,
      local: undefined,
    }
    this.replicas.push(replica)
    onTestFinished(async () => {
      ended.abort()
      await groups.close()
      proxy.stop()
      await server.close()
      await replica.local?.close()
    })
    return replica
  }

  /** Leaves the cluster without an active replica. */
  depose(): void {
    for (const { places, authority } of this.replicas) {
      if (authority) authority.isOver = true
      places.set({ kind: 'unknown' })
    }
  }

  /** Makes a replica active, as after a failover. `known` are the replicas that learn of it. Default: all. */
  async elect(active: Replica, known: readonly Replica[] = this.replicas): Promise<LocalGroups> {
    const head = await this.storage.head()
    this.#term += 1
    await this.storage.append(head, batchAfter(head, [], { term: this.#term }))
    const { clock = systemClock, modules: made = modules } = this.#options
    const authority = new TestAuthority(made.errors)
    const local = await made.localGroups.LocalGroups.open({
      storage: this.storage,
      authority,
      clock: new ServingClock(clock),
      storageClock: clock,
      graceMs: 0,
      policy,
      implicitGroups: true,
      maxGroups: 100_000,
      maxMembersPerGroup: 100,
      memberTtlMs: 60_000,
      ...this.#options.groups,
    })
    local.serve()
    for (const replica of known) {
      if (replica === active) continue
      if (replica.authority) replica.authority.isOver = true
      replica.places.set({ kind: 'remote', term: this.#term, address: active.address, replica: active.name })
      await replica.local?.close()
      replica.authority = undefined
      replica.local = undefined
    }
    active.authority = authority
    active.local = local
    active.places.set({ kind: 'local', term: this.#term, groups: local })
    return local
  }
}

/** A cluster of this many replicas, the first of which is active. */
export async function openCluster(
  count: number,
  options: ReplicaOptions = {},
  storage = new MemoryStorage(),
): Promise<TestCluster> {
  const cluster = new TestCluster(storage, options)
  for (let at = 0; at < count; at++) await cluster.add()
  const [first] = cluster.replicas
  if (first) await cluster.elect(first)
  return cluster
}

/** The active replica of a new cluster, a replica that may become active next, and a third one. */
export async function openThree(options: ReplicaOptions = {}, storage?: MemoryStorage) {
  const cluster = await openCluster(3, options, storage)
  const [active, next, follower] = cluster.replicas as [Replica, Replica, Replica]
  return { cluster, active, next, follower }
}

/** The active replica and a follower of a new cluster. */
export async function openPair(options: ReplicaOptions = {}) {
  const cluster = await openCluster(2, options)
  const [active, follower] = cluster.replicas as [Replica, Replica]
  return { cluster, active, follower }
}

export const here = new AbortController().signal

let attempts = 0
export const claimOf = (nodeId: string, more: Partial<CampaignClaim> = {}): CampaignClaim => ({
  groupId: 'jobs',
  nodeId,
  attempt: `attempt ${++attempts}`,
  attemptIsOnce: false,
  ttlMs: 5_000,
  metadata: '{}',
  waitMs: 0,
  ...more,
})
