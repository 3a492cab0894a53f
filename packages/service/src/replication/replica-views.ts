/** The replicas of a service, as shown to operators. */

/** The replica that answers for the groups. */
export interface ActiveView {
  readonly replica: string
  /** The address where other replicas reach this one. Undefined if there can be no others. */
  readonly address: string | undefined
  readonly term: number
  /** When the active replica began to serve, in Unix milliseconds. Undefined if it could not be asked. */
  readonly sinceMs: number | undefined
}

/** A replica that is not active and forwards calls. */
export interface FollowerView {
  readonly replica: string
  readonly address: string
  /** When the follower connected to the active replica, in Unix milliseconds. Undefined if it is not connected. */
  readonly sinceMs: number | undefined
  /**
   * Changes that the active replica sent and this follower has not confirmed. Undefined if there are more than the feed
   * keeps, or if the number is not known.
   */
  readonly changesBehind: number | undefined
  /** The age of the oldest unconfirmed change. Undefined if it is not known. */
  readonly lagMs: number | undefined
}

/** All replicas that one replica knows. */
export interface ReplicasView {
  /** Undefined if no active replica is known. */
  readonly active: ActiveView | undefined
  readonly followers: readonly FollowerView[]
}

export interface Replicas {
  /** The name of the replica that answers. */
  readonly name: string
  readonly storage: 'directory' | 'etcd' | 'postgres'
  /**
   * Returns the view of the active replica, or this replica's own knowledge if it cannot reach the active one. Settles
   * within 2 s, and never rejects.
   */
  view(): Promise<ReplicasView>
  /** Returns only this replica's own knowledge. Unless it is active, it knows nothing about other replicas. */
  ownView(): ReplicasView
  /** Resolves if this replica can reach the storage. */
  check(): Promise<void>
}

/** Returns the lag of the follower that is furthest behind, Infinity if it is not known. */
export function largestLagMs({ followers }: ReplicasView): number {
  return Math.max(0, ...followers.map(({ lagMs }) => lagMs ?? Infinity))
}
