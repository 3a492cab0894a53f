/**
 * The answers that the page reads from a server, with the field names of the HTTP API. Fields that a store does not
 * know are left out.
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
  readonly checkpoint: string
}

export interface ElectionStateAnswer {
  readonly leader: LeaseAnswer | null
  readonly previous_leader?: LeaseAnswer
  readonly highest_term: number
  /** Set only if there is no leader: the time until a candidate may lead. */
  readonly retry_after_ms?: number
}

export interface GroupAnswer extends ElectionStateAnswer {
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
  /** The total number of elections. Undefined if the server does not report it. */
  readonly total?: number
}

export type TermEndReason = 'expired' | 'resigned' | 'deleted'

export interface PageEvent extends Partial<ElectionStateAnswer> {
  readonly type: 'LEADER_CHANGED' | 'LEADER_LOST' | 'RENEWED' | 'STATE' | 'GAP' | 'TOO_SLOW'
  readonly group_id?: string
  readonly term?: number
  readonly leader_node_id?: string
  readonly reason?: TermEndReason
  readonly ts_ms: number
}

export interface ChangesAnswer {
  readonly changes: readonly PageEvent[]
}

export interface MemberAnswer {
  readonly node_id: string
  readonly role: 'leader' | 'candidate' | 'allowed'
  readonly last_heartbeat_ms: number | null
  readonly metadata: Readonly<Record<string, unknown>>
  readonly waiting?: boolean
  readonly live?: boolean
  readonly instance_start_uuid?: string
  /** The number of its seat. Only candidates that run with `present` have one. */
  readonly seat?: number
  readonly generation?: number
  readonly eligible?: boolean
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
  /** Null if the page shows a store, which has no replicas. */
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
