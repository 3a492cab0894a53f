import type { FollowerView, Replicas, ReplicasView } from '../operation/replicas.ts'
import type { Storage } from '../storage/storage.ts'
import type { PeerClient } from './peer-client.ts'
import type { PeerServer } from './peer-server.ts'
import type { ActiveReplica, ActiveReplicas } from './active-replica.ts'

type Elsewhere = ActiveReplica & { readonly kind: 'elsewhere' }

export interface ClusterReplicasOptions {
  /** The name and address of this replica. */
  readonly self: { readonly replica: string; readonly address: string }
  readonly kind: Replicas['storage']
  readonly places: ActiveReplicas
  readonly storage: Pick<Storage, 'head'>
  /** The server for peer connections. Undefined before it listens. */
  server(): PeerServer | undefined
  /** Returns the connection to the active replica. */
  link(place: Elsewhere): PeerClient
  /** Only on the active replica: resolves if its groups can be made durable. */
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

  /** Bypasses the calls that wait for an active replica: this view matters most when there is none. */
  async view(): Promise<ReplicasView> {
    const place = this.#options.places.now()
    if (place.kind !== 'elsewhere') return this.ownView()
    try {
      return await this.#options.link(place).replicas(askMs)
    } catch {
      // The active replica may have ended, or may be unreachable from here.
      const { replica, address, term } = place
      return { active: { replica, address, term, sinceMs: undefined }, followers: [this.#unconnected()] }
    }
  }

  ownView(): ReplicasView {
    const view = this.#options.server()?.view()
    return view?.active ? view : { active: undefined, followers: [this.#unconnected()] }
  }

  /** A follower checks the storage itself: if it cannot reach the storage, it could not take over. */
  async check(): Promise<void> {
    const { places, storage, checkGroups } = this.#options
    if (places.now().kind === 'here') await checkGroups()
    else await storage.head()
  }

  #unconnected(): FollowerView {
    return { ...this.#options.self, sinceMs: undefined, changesBehind: undefined, lagMs: undefined }
  }
}
