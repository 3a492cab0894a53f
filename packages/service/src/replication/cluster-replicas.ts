import type { FollowerView, Replicas, ReplicasView } from './replica-views.ts'
import type { Storage } from '../storage/storage.ts'
import type { PeerClient } from './peer-client.ts'
import type { PeerServer } from './peer-server.ts'
import type { ActiveReplicaSource, RemoteReplica } from './active-replica.ts'

export interface ClusterReplicasOptions {
  /** The name and address of this replica. */
  readonly self: { readonly replica: string; readonly address: string }
  readonly kind: Replicas['storage']
  readonly activeReplicas: ActiveReplicaSource
  readonly storage: Pick<Storage, 'head'>
  /** The server for peer connections. Undefined before it listens. */
  server(): PeerServer | undefined
  /** Returns the connection to the active replica. */
  clientFor(activeReplica: RemoteReplica): PeerClient
  /** Resolves if the groups can be made durable. Called only on the active replica. */
  checkGroups(): Promise<void>
}

const askMs = 2_000

/**
 * The replicas of a cluster. The active replica knows which followers are connected to it. A follower asks the active
 * replica.
 */
export class ClusterReplicas implements Replicas {
  readonly name: string
  readonly storage: Replicas['storage']
  readonly #options: ClusterReplicasOptions

  constructor(options: ClusterReplicasOptions) {
    this.name = options.self.replica
    this.storage = options.kind
    this.#options = options
  }

  /**
   * Bypasses the queue of calls that wait for an active replica, because this view matters most while no replica is
   * active.
   */
  async view(): Promise<ReplicasView> {
    const activeReplica = this.#options.activeReplicas.now()
    if (activeReplica.kind !== 'remote') return this.ownView()
    try {
      return await this.#options.clientFor(activeReplica).replicas(askMs)
    } catch {
      // The active replica may have stopped, or may be unreachable from here.
      const { replica, address, term } = activeReplica
      return { active: { replica, address, term, sinceMs: undefined }, followers: [this.#unconnected()] }
    }
  }

  ownView(): ReplicasView {
    const view = this.#options.server()?.view()
    return view?.active ? view : { active: undefined, followers: [this.#unconnected()] }
  }

  /** A follower checks the storage itself. If it cannot reach the storage, it could not take over. */
  async check(): Promise<void> {
    const { activeReplicas, storage, checkGroups } = this.#options
    if (activeReplicas.now().kind === 'local') await checkGroups()
    else await storage.head()
  }

  #unconnected(): FollowerView {
    return { ...this.#options.self, sinceMs: undefined, changesBehind: undefined, lagMs: undefined }
  }
}
