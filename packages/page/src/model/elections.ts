/**
 * The state of the elections that the page shows. All functions here are pure: the state depends only on the server's
 * messages and on their arrival times.
 */
import type { GroupAnswer, LeaseAnswer, PageEvent } from './answers.ts'
import { withChange, withLease, withPrevious, type Terms } from './terms.ts'

/** A moment on the viewer's own clocks. */
export interface PageMoment {
  readonly monotonicMs: number
  readonly wallMs: number
}

export interface ShownLease {
  readonly node: string
  readonly term: number
  readonly ttlMs: number
  /**
   * When the lease ends on the viewer's monotonic clock. It is computed from the remaining time in an answer and the
   * moment at which that answer arrived.
   */
  readonly endsAtMs: number
  /** Unix time in milliseconds, on the server's clock. */
  readonly sinceMs: number
  readonly renewedMs: number
  readonly metadata: Readonly<Record<string, unknown>>
  readonly checkpoint: string
}

export interface Election {
  readonly id: string
  readonly leader: ShownLease | undefined
  /** The last leader. Undefined while there is a leader. */
  readonly previous: ShownLease | undefined
  readonly highestTerm: number
  /** If there is no leader: when a candidate may lead again, on the viewer's monotonic clock. */
  readonly freeAtMs: number | undefined
  readonly terms: Terms
  readonly candidates: number | undefined
  /** How many of the candidates would take over. Undefined if unknown. */
  readonly standbys: number | undefined
  readonly waiting: number | undefined
  readonly policy: GroupAnswer['policy']
  readonly allowedNodes: readonly string[] | undefined
  /** Whether a stream has sent its state. A listing may be older, so from then on it does not change the leader. */
  readonly isFollowed: boolean
}

export interface ElectionList {
  readonly byId: ReadonlyMap<string, Election>
  /** How far the server's wall clock is ahead of the viewer's. It is used only to show times, never to compare them. */
  readonly aheadMs: number
}

export const noElections: ElectionList = { byId: new Map(), aheadMs: 0 }

/** Applies one page of a listing. Elections that are not on it are forgotten, and the others keep their terms. */
export function withListing(elections: ElectionList, groups: readonly GroupAnswer[], now: PageMoment): ElectionList {
  return { ...elections, byId: new Map(groups.map((group) => [group.group_id, seen(elections, group, now)])) }
}

/** Adds or updates one election. */
export function withGroup(elections: ElectionList, group: GroupAnswer, now: PageMoment): ElectionList {
  return { ...elections, byId: new Map(elections.byId).set(group.group_id, seen(elections, group, now)) }
}

function seen({ byId }: ElectionList, group: GroupAnswer, now: PageMoment): Election {
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

/**
 * Marks the stream as interrupted. The shown state may be outdated, and any answer that arrives from now on is newer.
 */
export function markInterrupted(elections: ElectionList): ElectionList {
  const byId = new Map([...elections.byId].map(([id, election]) => [id, { ...election, isFollowed: false }]))
  return { ...elections, byId }
}

/** Applies an event of a stream. It ignores elections that are not shown. */
export function withEvent(elections: ElectionList, event: PageEvent, now: PageMoment): ElectionList {
  const { group_id: id, ts_ms: atMs, type } = event
  // GAP and TOO_SLOW may be old. Other events carry the server's current time.
  const aheadMs = type === 'GAP' || type === 'TOO_SLOW' ? elections.aheadMs : atMs - now.wallMs
  const known = id === undefined ? undefined : elections.byId.get(id)
  if (id === undefined || !known) return { ...elections, aheadMs }
  const next = changed(known, event, now)
  return { aheadMs, byId: next === known ? elections.byId : new Map(elections.byId).set(id, next) }
}

/** Applies recorded changes. They are history and do not show who leads now. */
export function withRecordedChanges(elections: ElectionList, changes: readonly PageEvent[]): ElectionList {
  const byId = new Map(elections.byId)
  for (const change of changes) {
    const known = change.group_id === undefined ? undefined : byId.get(change.group_id)
    if (known) byId.set(known.id, { ...known, terms: withChange(known.terms, change) })
  }
  return { ...elections, byId }
}

function changed(election: Election, event: PageEvent, now: PageMoment): Election {
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
  now: PageMoment,
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

function leaseOf(answer: LeaseAnswer, { monotonicMs }: PageMoment): ShownLease {
  return {
    node: answer.node_id,
    term: answer.term,
    ttlMs: answer.lease_ttl_ms,
    endsAtMs: monotonicMs + answer.lease_remaining_ms,
    sinceMs: answer.acquired_at_ms,
    renewedMs: answer.renewed_at_ms,
    metadata: answer.metadata,
    checkpoint: answer.checkpoint,
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

/** The time left on a lease by the viewer's own clock, between zero and the whole lease. */
export function remainingOf(
  { endsAtMs, ttlMs }: ShownLease,
  monotonicMs: number,
): { readonly ms: number; readonly part: number } {
  const ms = Math.max(0, endsAtMs - monotonicMs)
  return { ms, part: ttlMs > 0 ? Math.min(1, ms / ttlMs) : 0 }
}
