import type { FollowerView, Replicas, ReplicasView } from '../operation/replicas.ts'
import type { Storage } from '../storage/storage.ts'
import type { LinkClient } from './link-client.ts'
import type { LinkServer } from './link-server.ts'
import type { Place, Places } from './place.ts'

type Elsewhere = Place & { readonly kind: 'elsewhere' }

export interface ClusterReplicasOptions {
  /** The name and the address of this replica. */
  readonly self: { readonly replica: string; readonly address: string }
  readonly kind: Replicas['storage']
  readonly places: Places
  readonly storage: Pick<Storage, 'head'>
  /** Undefined before it listens. */
  server(): LinkServer | undefined
  /** The connection to the active replica. */
  link(place: Elsewhere): LinkClient
  /** Resolves while the groups of the active replica, here, can be made durable. */
  checkGroups(): Promise<void>
}

const askMs = 2_000

/** The replicas of a cluster: the active one knows who is connected to it, and any other one asks it. */
export class ClusterReplicas implements Replicas {
  readonly name: string
  readonly storage: Replicas['storage']
  readonly #options: ClusterReplicasOptions

  constructor(options: ClusterReplicasOptions) {
    this.name = options.self.replica
    this.storage = options.kind
    this.#options = options
  }

  /** Never by way of a call that is held: what is asked most urgently is why nobody is active. */
  async view(): Promise<ReplicasView> {
    const place = this.#options.places.now()
    if (place.kind !== 'elsewhere') return this.ownView()
    try {
      return await this.#options.link(place).replicas(askMs)
    } catch {
      // It may have ended, or be cut off from here.
      const { replica, address, term } = place
      return { active: { replica, address, term, sinceMs: undefined }, followers: [this.#unconnected()] }
    }
  }

  ownView(): ReplicasView {
    const view = this.#options.server()?.view()
    return view?.active ? view : { active: undefined, followers: [this.#unconnected()] }
  }

  /** Not by the active one: a follower that cannot reach the storage could not take over. */
  async check(): Promise<void> {
    const { places, storage, checkGroups } = this.#options
    if (places.now().kind === 'here') await checkGroups()
    else await storage.head()
  }

  #unconnected(): FollowerView {
    return { ...this.#options.self, sinceMs: undefined, changesBehind: undefined, lagMs: undefined }
  }
}
