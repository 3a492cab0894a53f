import type { LeaseAnswer, PageEvent } from '../../src/model/answers.ts'

/** Creates a lease as a server sends it. */
export function lease(node_id: string, term: number, more: Partial<LeaseAnswer> = {}): LeaseAnswer {
  return {
    node_id,
    term,
    lease_remaining_ms: 10_000,
    lease_ttl_ms: 15_000,
    acquired_at_ms: term * 1_000,
    renewed_at_ms: term * 1_000 + 500,
    metadata: {},
    checkpoint: '',
    ...more,
  }
}

export function elected(node: string, term: number, ts_ms = term * 1_000): PageEvent {
  const leader = lease(node, term, { acquired_at_ms: ts_ms })
  return { type: 'LEADER_CHANGED', group_id: 'jobs', term, leader_node_id: node, leader, ts_ms }
}

export function lost(node: string, term: number, reason: 'expired' | 'resigned' | 'deleted', ts_ms: number): PageEvent {
  const previous_leader = lease(node, term, { lease_remaining_ms: 0 })
  return {
    type: 'LEADER_LOST',
    group_id: 'jobs',
    term,
    leader_node_id: node,
    reason,
    leader: null,
    previous_leader,
    ts_ms,
  }
}
