/**
 * What the page reads from a server, with the names of the HTTP API. Fields that a store does not know are left out.
 */

/** A lease, and the node that holds it or held it last. */
export interface LeaseAnswer {
  readonly node_id: string
  readonly term: number
  readonly lease_remaining_ms: number
  readonly lease_ttl_ms: number
  /** Unix time in milliseconds, on the server's clock. */
  readonly acquired_at_ms: number
  readonly renewed_at_ms: number
  readonly metadata: Readonly<Record<string, unknown>>
  readonly carry: string
}

export interface StandingAnswer {
  readonly leader: LeaseAnswer | null
  readonly previous_leader?: LeaseAnswer
  readonly highest_term: number
  /** If there is no leader: how long nobody may lead yet. */
  readonly retry_after_ms?: number
}

export interface GroupAnswer extends StandingAnswer {
  readonly group_id: string
  readonly policy?: { readonly min_ttl_ms: number; readonly max_ttl_ms: number }
  readonly allowed_nodes?: readonly string[] | null
  readonly candidates?: number
  readonly standbys?: number
  readonly waiting?: number
}

export interface GroupsAnswer {
  readonly groups: readonly GroupAnswer[]
  readonly next: string | null
  /** How many there are in total, if the server says so. */
  readonly total?: number
}

export type EndReason = 'expired' | 'resigned' | 'deleted'

export interface WatchEvent extends Partial<StandingAnswer> {
  readonly type: 'LEADER_CHANGED' | 'LEADER_LOST' | 'RENEWED' | 'STATE' | 'GAP' | 'TOO_SLOW'
  readonly group_id?: string
  readonly term?: number
  readonly leader_node_id?: string
  readonly reason?: EndReason
  readonly ts_ms: number
}

export interface ChangesAnswer {
  readonly changes: readonly WatchEvent[]
}

export interface MemberAnswer {
  readonly node_id: string
  readonly role: 'leader' | 'candidate' | 'allowed'
  readonly last_heartbeat_ms: number | null
  readonly metadata: Readonly<Record<string, unknown>>
  readonly waiting?: boolean
  readonly live?: boolean
}

export interface MembersAnswer {
  /** Null if this store does not know its members. */
  readonly members: readonly MemberAnswer[] | null
}

export interface ReplicaAnswer {
  readonly replica: string
  readonly role: 'active' | 'follower'
  readonly address: string | null
  readonly since_ms: number | null
  readonly changes_behind: number | null
  readonly feed_lag_ms: number | null
}

export interface ReplicasAnswer {
  readonly answered_by: string
  readonly storage: { readonly kind: string; readonly healthy: boolean }
  readonly active: string | null
  readonly term: number | null
  /** Null for a store, which has no replicas. */
  readonly replicas: readonly ReplicaAnswer[] | null
}

export interface IdentityAnswer {
  readonly subject: string
  readonly admin: boolean
  readonly reader: boolean
  readonly expires_at_ms: number | null
}

export interface FailureAnswer {
  readonly error?: string
  readonly message?: string
}
