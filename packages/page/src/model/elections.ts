/**
 * What the page knows about the elections that it shows. These are pure functions of what the server sent and when it
 * arrived.
 */
import type { GroupAnswer, LeaseAnswer, WatchEvent } from './answers.ts'
import { withChange, withLease, withPrevious, type Terms } from './terms.ts'

/** A moment on the viewer's own clocks. */
export interface Moment {
  readonly monotonicMs: number
  readonly wallMs: number
}

export interface Lease {
  readonly node: string
  readonly term: number
  readonly ttlMs: number
  /**
   * When the lease ends on the viewer's monotonic clock. It counts from the arrival of the answer that said what was
   * left.
   */
  readonly endsAtMs: number
  /** Unix time in milliseconds, on the server's clock. */
  readonly sinceMs: number
  readonly renewedMs: number
  readonly metadata: Readonly<Record<string, unknown>>
  readonly carry: string
}

export interface Election {
  readonly id: string
  readonly leader: Lease | undefined
  /** The last leader, if there is none now. */
  readonly previous: Lease | undefined
  readonly highestTerm: number
  /** If there is no leader: until when nobody may lead, on the viewer's monotonic clock. */
  readonly freeAtMs: number | undefined
  readonly terms: Terms
  readonly candidates: number | undefined
  /** How many of the candidates would take over; undefined if unknown. */
  readonly standbys: number | undefined
  readonly waiting: number | undefined
  readonly policy: GroupAnswer['policy']
  readonly allowedNodes: readonly string[] | undefined
  /** Whether a stream has sent its state. A listing may be older, so it no longer changes the leader. */
  readonly isFollowed: boolean
}

export interface Elections {
  readonly byId: ReadonlyMap<string, Election>
  /** How far the server's wall clock is ahead of the viewer's. It is used only to show times, never to compare them. */
  readonly aheadMs: number
}

export const noElections: Elections = { byId: new Map(), aheadMs: 0 }

/** Applies one page of a listing. Elections that are not on it are forgotten; those that stay keep their terms. */
export function listed(elections: Elections, groups: readonly GroupAnswer[], now: Moment): Elections {
  return { ...elections, byId: new Map(groups.map((group) => [group.group_id, seen(elections, group, now)])) }
}

/** Adds or updates one election. */
export function looked(elections: Elections, group: GroupAnswer, now: Moment): Elections {
  return { ...elections, byId: new Map(elections.byId).set(group.group_id, seen(elections, group, now)) }
}

function seen({ byId }: Elections, group: GroupAnswer, now: Moment): Election {
  const known = byId.get(group.group_id) ?? unknown(group.group_id)
  const shown = {
    ...known,
    candidates: group.candidates,
    standbys: group.standbys,
    waiting: group.waiting,
    policy: group.policy,
    allowedNodes: group.allowed_nodes ?? undefined,
  }
  return known.isFollowed ? shown : standing(shown, group, now)
}

/** Marks the stream as interrupted. What is shown may be outdated, and whatever comes next is newer. */
export function unfollowed(elections: Elections): Elections {
  const byId = new Map([...elections.byId].map(([id, election]) => [id, { ...election, isFollowed: false }]))
  return { ...elections, byId }
}

/** Applies an event of a stream. It ignores elections that are not shown. */
export function told(elections: Elections, event: WatchEvent, now: Moment): Elections {
  const { group_id: id, ts_ms: atMs, type } = event
  // GAP and TOO_SLOW may be old. Other events carry the server's current time.
  const aheadMs = type === 'GAP' || type === 'TOO_SLOW' ? elections.aheadMs : atMs - now.wallMs
  const known = id === undefined ? undefined : elections.byId.get(id)
  if (id === undefined || !known) return { ...elections, aheadMs }
  const next = changed(known, event, now)
  return { aheadMs, byId: next === known ? elections.byId : new Map(elections.byId).set(id, next) }
}

/** Applies recorded changes. They are history, and do not say who leads now. */
export function remembered(elections: Elections, changes: readonly WatchEvent[]): Elections {
  const byId = new Map(elections.byId)
  for (const change of changes) {
    const known = change.group_id === undefined ? undefined : byId.get(change.group_id)
    if (known) byId.set(known.id, { ...known, terms: withChange(known.terms, change) })
  }
  return { ...elections, byId }
}

function changed(election: Election, event: WatchEvent, now: Moment): Election {
  const { type, leader, previous_leader: previous, term = 0 } = event
  if (type === 'STATE')
    return { ...standing(election, { highest_term: 0, leader: null, ...event }, now), isFollowed: true }
  const terms = withChange(election.terms, event)
  // The event is about an older term than the one shown, so it only changes the history.
  if (term < (election.leader?.term ?? election.highestTerm)) return { ...election, terms }
  if (type === 'LEADER_LOST') {
    if (election.leader && election.leader.term > term) return { ...election, terms }
    const last = previous ? leaseOf(previous, now) : election.leader
    return {
      ...election,
      terms,
      leader: undefined,
      previous: last ?? election.previous,
      highestTerm: term,
      freeAtMs: undefined,
    }
  }
  if (!leader || (type !== 'LEADER_CHANGED' && type !== 'RENEWED')) return { ...election, terms }
  return {
    ...election,
    terms,
    leader: leaseOf(leader, now),
    previous: undefined,
    highestTerm: leader.term,
    freeAtMs: undefined,
  }
}

function standing(
  election: Election,
  {
    leader,
    previous_leader: previous,
    highest_term,
    retry_after_ms,
  }: Pick<GroupAnswer, 'leader' | 'previous_leader' | 'highest_term' | 'retry_after_ms'>,
  now: Moment,
): Election {
  const terms = previous ? withPrevious(election.terms, previous) : election.terms
  const isHeld = !leader && retry_after_ms !== undefined
  return {
    ...election,
    leader: leader ? leaseOf(leader, now) : undefined,
    previous: previous && leaseOf(previous, now),
    highestTerm: highest_term,
    freeAtMs: isHeld ? now.monotonicMs + retry_after_ms : undefined,
    terms: leader ? withLease(terms, leader) : terms,
  }
}

function leaseOf(answer: LeaseAnswer, { monotonicMs }: Moment): Lease {
  return {
    node: answer.node_id,
    term: answer.term,
    ttlMs: answer.lease_ttl_ms,
    endsAtMs: monotonicMs + answer.lease_remaining_ms,
    sinceMs: answer.acquired_at_ms,
    renewedMs: answer.renewed_at_ms,
    metadata: answer.metadata,
    carry: answer.carry,
  }
}

function unknown(id: string): Election {
  return {
    id,
    leader: undefined,
    previous: undefined,
    highestTerm: 0,
    freeAtMs: undefined,
    terms: [],
    candidates: undefined,
    standbys: undefined,
    waiting: undefined,
    policy: undefined,
    allowedNodes: undefined,
    isFollowed: false,
  }
}

/** What is left of a lease on the viewer's own clock, between zero and the whole lease. */
export function leftOf(
  { endsAtMs, ttlMs }: Lease,
  monotonicMs: number,
): { readonly ms: number; readonly part: number } {
  const ms = Math.max(0, endsAtMs - monotonicMs)
  return { ms, part: ttlMs > 0 ? Math.min(1, ms / ttlMs) : 0 }
}
