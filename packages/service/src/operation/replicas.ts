/** The replicas of a service, as its operator sees them. */

/** The replica that answers for the groups. */
export interface ActiveView {
  readonly replica: string
  /** Where other replicas reach it. Undefined if there can be no others. */
  readonly address: string | undefined
  readonly term: number
  /** When it began to serve, in Unix milliseconds. Undefined if it could not be asked. */
  readonly sinceMs: number | undefined
}

/** A replica that is not active and forwards calls. */
export interface FollowerView {
  readonly replica: string
  readonly address: string
  /** When it connected to the active replica, in Unix milliseconds. Undefined if it is not connected. */
  readonly sinceMs: number | undefined
  /**
   * Changes that the active replica sent and this follower has not confirmed. Undefined if there are more than are
   * kept, or if the number is not known.
   */
  readonly changesBehind: number | undefined
  /** The age of the oldest unconfirmed change. Undefined if it is not known. */
  readonly lagMs: number | undefined
}

/** All replicas, as far as one replica knows them. */
export interface ReplicasView {
  /** Undefined if no active replica is known. */
  readonly active: ActiveView | undefined
  readonly followers: readonly FollowerView[]
}

export interface Replicas {
  /** The name of the replica that answers. */
  readonly name: string
  readonly storage: 'directory' | 'etcd' | 'postgres'
  /** Asks the active replica if it can be reached. Settles within 2 s, and never rejects. */
  view(): Promise<ReplicasView>
  /** Returns what this replica knows by itself, which is nothing about others unless it is active. */
  ownView(): ReplicasView
  /** Resolves if the storage answers this replica. */
  check(): Promise<void>
}

/** Returns the lag of the follower that is furthest behind, Infinity if it is not known. */
export function largestLagMs({ followers }: ReplicasView): number {
  return Math.max(0, ...followers.map(({ lagMs }) => lagMs ?? Infinity))
}
