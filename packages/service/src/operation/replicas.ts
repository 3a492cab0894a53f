/** The replicas of a service, as its operator sees them. */

/** The replica that answers for the groups. */
export interface ActiveView {
  readonly replica: string
  /** Where the other replicas reach it. Undefined: there can be no other. */
  readonly address: string | undefined
  readonly term: number
  /** When it began to serve, as Unix time. Undefined: it could not be asked. */
  readonly sinceMs: number | undefined
}

/** A replica that passes calls on. */
export interface FollowerView {
  readonly replica: string
  readonly address: string
  /** When it connected to the active one, as Unix time. Undefined: it is not connected. */
  readonly sinceMs: number | undefined
  /** Changes that the active one told of and this one has not confirmed. Undefined: more than are kept, or not known. */
  readonly changesBehind: number | undefined
  /** How old the oldest of these is. */
  readonly lagMs: number | undefined
}

/** What one replica knows of all. */
export interface ReplicasView {
  /** Undefined: nobody is known to be active. */
  readonly active: ActiveView | undefined
  readonly followers: readonly FollowerView[]
}

export interface Replicas {
  /** The replica that is asked. */
  readonly name: string
  readonly storage: 'directory' | 'etcd' | 'postgres'
  /** By the active one where it can be reached. Settles within 2 s, and never rejects. */
  view(): Promise<ReplicasView>
  /** As far as this replica knows by itself: nothing on one that is not active. */
  ownView(): ReplicasView
  /** Resolves while the storage answers this replica. */
  check(): Promise<void>
}

/** Lag of the follower that is furthest behind; Infinity if it cannot be told. */
export function largestLagMs({ followers }: ReplicasView): number {
  return Math.max(0, ...followers.map(({ lagMs }) => lagMs ?? Infinity))
}
