import type { LeaseView, Verdict } from './state.ts'

/** A lease in the words of the HTTP API. */
export function leaderOf(lease: LeaseView, wallMs: number) {
  return {
    node_id: lease.nodeId,
    term: lease.term,
    lease_expires_at_ms: Math.round(wallMs + lease.remainingMs),
    // Down: a client must not think the lease longer than it is.
    lease_remaining_ms: Math.floor(lease.remainingMs),
    lease_ttl_ms: lease.ttlMs,
    acquired_at_ms: lease.acquiredAtMs,
    renewed_at_ms: lease.renewedAtMs,
    metadata: lease.metadata,
    carry: lease.carry,
    attempt: lease.attempt,
    version: lease.version,
  }
}

/** Who leads, or who did last. */
export function leadershipOf({ lease, highestTerm, freeInMs }: Verdict, wallMs: number) {
  const live = lease !== undefined && !lease.ended
  const waitMs = Math.ceil(live ? lease.remainingMs : freeInMs)
  return {
    leader: live ? leaderOf(lease, wallMs) : null,
    ...(lease?.ended && { previous_leader: leaderOf(lease, wallMs) }),
    highest_term: highestTerm,
    ...(waitMs > 0 && { retry_after_ms: waitMs }),
  }
}
