/** Converts the service's data to the field names of the HTTP API. */
import type { GroupChange, GroupState, LeaseView } from '../groups/port.ts'
import type { WatchedEvent } from './watch.ts'

export function leaderOf(lease: LeaseView, wallMs: number) {
  return {
    node_id: lease.nodeId,
    term: lease.term,
    lease_expires_at_ms: Math.round(wallMs + lease.remainingMs),
    // Rounded down, so that no client overestimates its lease.
    lease_remaining_ms: Math.floor(lease.remainingMs),
    lease_ttl_ms: lease.ttlMs,
    acquired_at_ms: lease.acquiredAtMs,
    renewed_at_ms: lease.renewedAtMs,
    metadata: JSON.parse(lease.metadata) as Record<string, unknown>,
    checkpoint: lease.checkpoint,
    attempt: lease.attempt,
    ...(lease.instance !== undefined && { instance_start_uuid: lease.instance }),
    version: lease.version,
    ...(lease.writeId !== undefined && { write_id: lease.writeId }),
    ...(lease.successor !== undefined && { successor: lease.successor }),
  }
}

/** Returns the current leader, or the last one if there is none. */
export function leadershipOf({ lease, highestTerm, freeInMs }: GroupState, wallMs: number) {
  const live = lease !== undefined && !lease.ended
  const waitMs = Math.ceil(live ? lease.remainingMs : freeInMs)
  return {
    leader: live ? leaderOf(lease, wallMs) : null,
    ...(lease?.ended && { previous_leader: leaderOf(lease, wallMs) }),
    highest_term: highestTerm,
    ...(waitMs > 0 && { retry_after_ms: waitMs }),
  }
}

/** Returns a change without its lease, as shown in lists. */
export function changeOf({ type, groupId, lease, reason, atMs }: GroupChange): WatchedEvent {
  return {
    type,
    group_id: groupId,
    term: lease.term,
    leader_node_id: lease.nodeId,
    ...(reason && { reason }),
    ts_ms: atMs,
  }
}

export function eventOf(change: GroupChange): WatchedEvent {
  const shown = leaderOf(change.lease, change.atMs)
  const isOver = change.type === 'LEADER_LOST'
  return { ...changeOf(change), ...(isOver ? { leader: null, previous_leader: shown } : { leader: shown }) }
}
