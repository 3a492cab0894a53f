/**
 * The rules that decide who leads a group, as pure functions. Given `(group, claim, now)`, they return either the
 * record that must be written before anyone is answered, or an answer. They change nothing and wait for nothing.
 * `GroupDriver` calls them while no write of the group is in flight, and begins the write in the same step.
 *
 * A line below enforces each of these rules:
 *
 * - A term is granted only if there is no live lease and no hold, and it is above every term before.
 * - A repeated attempt gets its own term again, and nothing more.
 * - A promise is never shortened, and a promise longer than the storage has recorded is written first.
 * - A leader that the definition no longer allows is promised nothing more, and its lease expires.
 * - An end is written before anyone learns of it, and nothing revives an ended term.
 * - A lease that was ended by force still keeps everyone else out until it would have expired.
 * - The name of a successor delays the campaigns of other nodes for a limited time, and grants nothing.
 */
import type { CampaignClaim, Definition, HolderClaim, Policy, RefusalData, RenewClaim } from './port.ts'
import type { GroupRecord } from '../storage/storage.ts'
import { shortSubject, type GrowthCheck } from './group-bytes.ts'
import {
  isAllowed,
  noMetadata,
  versionOf,
  type Group,
  type GroupLease,
  type Hold,
  type LeaseGrant,
} from './in-memory-group.ts'
import { mustWaitForSuccessor } from './successor.ts'

/** The inputs of a decision besides the group and the claim. */
export interface DecisionContext {
  readonly monotonicMs: number
  /** In Unix milliseconds, for display only. */
  readonly wallMs: number
  /** The policy of groups without a definition. */
  readonly policy: Policy
  readonly versionPrefix: string
  /** Whether the storage may have recorded that the newest lease ended, although nobody was notified. */
  readonly doubtful: boolean
  /** Why no more groups may be added. Undefined if there is room. */
  readonly noRoom: RefusalData | undefined
  /** Returns why a write may not make a group larger. Default: every write may. */
  readonly room?: GrowthCheck | undefined
}

/** The change in memory that takes effect once the record is durable. */
export type GroupStep =
  | { readonly type: 'grant'; readonly grant: LeaseGrant }
  | {
      readonly type: 'end'
      readonly reason: 'expired' | 'resigned'
      readonly writeId?: string | undefined
      /** The node that should lead next, if one was named. */
      readonly successor?: string | undefined
      /** How long to hold the group. Set if the holder did not end the lease itself and may still be working. */
      readonly hold?: Hold
    }
  | { readonly type: 'delete'; readonly hold: Hold | undefined }
  | { readonly type: 'define'; readonly definition: Definition; readonly isNew: boolean }
  /** An addition that takes nothing away from the lease: a longer promise, or a checkpoint. */
  | { readonly type: 'add'; readonly promisedMs: number; readonly checkpoint: string }
  /** The lease ended long ago. Its metadata is dropped, or the whole group. */
  | { readonly type: 'trim'; readonly dropped: 'metadata' | 'group' }
  /** Nothing changes, but the write makes certain what the storage has. */
  | { readonly type: 'confirm' }

/** The complete record of a group to write, and the change that takes effect once it is written. */
export interface GroupWrite {
  readonly record: GroupRecord
  readonly step: GroupStep
}

/** The decision: write and then answer, or answer at once. */
export type Ruling<Answer> = { readonly write: GroupWrite } | { readonly answer: Answer }

/**
 * How far above a group's highest term `after_term` may be. A restored backup skips a million terms, so a client may
 * know a term that far ahead. With a larger limit, a candidate could use up all terms of a shared group within hours.
 */
const farthestTerms = 2 ** 20
/** The same for an administrator, who may have to continue from terms that another service granted. */
const farthestTermsOfAdministrator = 2 ** 32

/**
 * `wait`: the campaign may be granted later. `isFirst`: the campaign is first in the campaign queue.
 *
 * The refusals here are not checks of the body. They depend on the group, which only the active replica knows.
 */
export function judgeCampaign(
  group: Group,
  claim: CampaignClaim & { readonly isFirst: boolean },
  now: DecisionContext,
): Ruling<'granted' | 'refused' | 'wait' | RefusalData> {
  const refusal =
    refusalOfNode(group, claim.nodeId) ??
    refusalOfTtl(group, 'lease_ttl_ms', claim.ttlMs, now.policy) ??
    refusalOfAfterTerm(group, claim)
  if (refusal) return { answer: refusal }
  const { lease } = group
  if (lease?.isLive(now.monotonicMs)) {
    const same = lease.attempt === claim.attempt && lease.nodeId === claim.nodeId
    if (!same) return { answer: 'wait' }
    return now.doubtful ? confirmed(group, now) : { answer: 'granted' }
  }
  const outdated = claim.afterTerm !== undefined && group.term > claim.afterTerm
  const used = claim.attemptIsOnce && lease?.attempt === claim.attempt
  if (outdated || used) return { answer: 'refused' }
  if (!claim.isFirst || group.freeInMs(now.monotonicMs) > 0) return { answer: 'wait' }
  if (mustWaitForSuccessor(group, claim.nodeId, now.monotonicMs)) return { answer: 'wait' }
  return granted(group, claim, now)
}

function granted(group: Group, claim: CampaignClaim, now: DecisionContext): Ruling<RefusalData> {
  const term = Math.max(group.term, claim.afterTerm ?? 0) + 1
  if (!Number.isSafeInteger(term)) {
    return { answer: { code: 'CONFLICT', message: `Group "${group.id}" has used all its terms.`, details: {} } }
  }
  if (group.deleted && now.noRoom) return { answer: now.noRoom }
  const { nodeId, attempt, instance, ttlMs, writeId } = claim
  const metadata = claim.metadata === noMetadata ? noMetadata : claim.metadata
  const grant = { term, nodeId, attempt, instance, metadata, acquiredAtMs: now.wallMs, ttlMs, writeId }
  const record = {
    term,
    ...leaseRecord({ ...grant, promisedMs: ttlMs }),
    ...(group.checkpoint !== '' && { checkpoint: group.checkpoint }),
    ...(group.definition && definitionRecord(group.definition)),
    ...(claim.subject !== undefined && { by: shortSubject(claim.subject) }),
  }
  return fitting(group, { record, step: { type: 'grant', grant } }, now)
}

function fitting(group: Group, write: GroupWrite, { room }: DecisionContext): Ruling<RefusalData> {
  const refusal = room?.(group, write.record)
  return refusal ? { answer: refusal } : { write }
}

/** `extended`: the lease is extended only in memory, without a write. */
export function judgeRenewal(
  group: Group,
  claim: RenewClaim,
  now: DecisionContext,
): Ruling<'refused' | 'extended' | RefusalData> {
  const { lease } = group
  if (!lease || !matches(lease, claim, now) || !lease.isLive(now.monotonicMs)) return refused
  const { extendByMs, checkpoint = group.checkpoint } = claim
  const refusal =
    refusalOfNode(group, claim.nodeId, 'no longer allowed') ??
    refusalOfTtl(group, 'extend_by_ms', extendByMs, now.policy)
  if (refusal) return { answer: refusal }
  if (extendByMs <= lease.promisedMs && checkpoint === group.checkpoint && !now.doubtful) return extended
  const promisedMs = Math.max(lease.promisedMs, extendByMs)
  const record = { ...recordOf(group, now), ttl: promisedMs, checkpoint: checkpoint === '' ? undefined : checkpoint }
  return fitting(group, { record, step: { type: 'add', promisedMs, checkpoint } }, now)
}

// Shared objects, because renewals are the most frequent claims.
const refused = { answer: 'refused' } as const
const extended = { answer: 'extended' } as const

/** `done`: the lease had already ended. */
export function judgeResignation(group: Group, claim: HolderClaim, now: DecisionContext): Ruling<'refused' | 'done'> {
  const { lease } = group
  if (!lease || !isHolder(lease, claim)) return refused
  const isExact = claim.version !== undefined || claim.attempt !== undefined
  if (isExact && !(matches(lease, claim, now) && lease.isLive(now.monotonicMs))) return refused
  const { writeId, successor } = claim
  return lease.ended ? { answer: 'done' } : ended(group, now, { reason: 'resigned', writeId, successor })
}

/**
 * An administrator ends a term by force. The holder learns of it at its next renewal. Until then it may rely on its
 * lease, so nobody else leads before the lease would have expired, even after a restart.
 */
export function judgeForcedResignation(
  group: Group,
  claim: HolderClaim,
  now: DecisionContext,
): Ruling<'refused' | 'done'> {
  const { lease } = group
  if (!lease || !isHolder(lease, claim)) return refused
  if (lease.ended) return { answer: 'done' }
  if (!lease.isLive(now.monotonicMs)) return ended(group, now, { reason: 'expired' })
  return ended(group, now, { reason: 'resigned', successor: claim.successor, hold: holdOf(lease, now) })
}

/** Checks whether a lease has expired. `known`: nothing has to be written before the group can be shown. */
export function judgeExpiry(group: Group, now: DecisionContext): Ruling<'known'> {
  const { lease } = group
  const isKnown = !lease || lease.ended || lease.isLive(now.monotonicMs)
  return isKnown ? { answer: 'known' } : ended(group, now, { reason: 'expired' })
}

/** Deleting a group that has a leader requires force. */
export function judgeRemoval(
  group: Group,
  claim: { readonly force: boolean },
  now: DecisionContext,
): Ruling<RefusalData> {
  const { lease } = group
  const isLive = lease?.isLive(now.monotonicMs) ?? false
  if (isLive && !claim.force) {
    const message = `Group "${group.id}" has a leader. Let it resign, or add ?force=true.`
    return { answer: { code: 'CONFLICT', message, details: {} } }
  }
  // The holder may rely on its lease, so nobody else leads before it would have expired, even after a restart.
  const hold = lease && isLive ? holdOf(lease, now) : undefined
  const { min: _min, max: _max, allowed: _allowed, checkpoint: _c, successor: _s, ...kept } = recordOf(group, now)
  const record = { ended: 'deleted', ...kept, deleted: true, ...(hold && { heldMs: hold.heldMs }) } as const
  return { write: { record, step: { type: 'delete', hold } } }
}

/**
 * Decides which data to drop from a group whose lease ended long ago. A defined group stays permanently, and so does
 * one with a checkpoint, which the next leader needs. The term stays in any case. Nothing is dropped while the group
 * has a hold or a campaign queue.
 */
export function judgeTrim(group: Group, what: 'metadata' | 'group', now: DecisionContext): Ruling<'kept' | 'later'> {
  const { lease, deleted, definition, checkpoint } = group
  if (!lease?.ended) return { answer: 'kept' }
  if (group.freeInMs(now.monotonicMs) > 0 || group.campaignQueue?.size) return { answer: 'later' }
  const { term, by } = group
  if (deleted || (what === 'group' && !definition && checkpoint === '')) {
    const record = { term, deleted: true, ...(by !== undefined && { by }) }
    return { write: { record, step: { type: 'trim', dropped: 'group' } } }
  }
  if (definition || lease.metadata === noMetadata) return { answer: 'kept' }
  const { meta: _meta, ...record } = recordOf(group, now)
  return { write: { record, step: { type: 'trim', dropped: 'metadata' } } }
}

/** The remaining time may be longer than the promise: after a restart each lease lasts for an additional grace. */
function holdOf({ expiresAtMs, promisedMs }: GroupLease, { monotonicMs }: DecisionContext): Hold {
  return { untilMs: expiresAtMs, heldMs: Math.max(promisedMs, expiresAtMs - monotonicMs) }
}

export function judgeDefinition(
  group: Group,
  claim: { readonly definition: Definition; readonly replace: boolean },
  now: DecisionContext,
): Ruling<'same' | RefusalData> {
  const before = group.deleted ? undefined : group.definition
  if (before && isSameDefinition(before, claim.definition)) return { answer: 'same' }
  if (before && !claim.replace) {
    const message = `Group "${group.id}" already exists with another definition. Use PUT to change it.`
    return { answer: { code: 'CONFLICT', message, details: {} } }
  }
  if (group.deleted && now.noRoom) return { answer: now.noRoom }
  const { deleted: _deleted, ...kept } = recordOf(group, now)
  const record = { ...kept, ...definitionRecord(claim.definition) }
  return fitting(group, { record, step: { type: 'define', definition: claim.definition, isNew: !before } }, now)
}

/** Returns why a node may not take part, or undefined if it may. */
export function refusalOfNode(group: Group, nodeId: string, standing = 'not allowed'): RefusalData | undefined {
  if (!group.definition || isAllowed(group.definition, nodeId)) return undefined
  return { code: 'UNAUTHORIZED', message: `Node "${nodeId}" is ${standing} in group "${group.id}".`, details: {} }
}

function refusalOfTtl(group: Group, field: string, ttlMs: number, fallback: Policy): RefusalData | undefined {
  const { minTtlMs, maxTtlMs } = group.definition?.policy ?? fallback
  if (ttlMs >= minTtlMs && ttlMs <= maxTtlMs) return undefined
  return {
    code: 'INVALID_TTL',
    message: `${field} is ${ttlMs}; group "${group.id}" allows ${minTtlMs} to ${maxTtlMs}.`,
    details: { min_ttl_ms: minTtlMs, max_ttl_ms: maxTtlMs },
  }
}

/**
 * Terms only rise, so granting a term from far ahead would use up all terms below it permanently. The claim is refused
 * instead of getting a lower term than it asks for, because its sender may know that the lower term is already used.
 */
function refusalOfAfterTerm({ id, term }: Group, claim: CampaignClaim): RefusalData | undefined {
  const { afterTerm = 0, byAdministrator = false } = claim
  if (afterTerm - term <= (byAdministrator ? farthestTermsOfAdministrator : farthestTerms)) return undefined
  const bound = byAdministrator ? '2^32' : '2^20'
  const advice = byAdministrator
    ? 'Is this the service that granted it?'
    : 'If this service replaces the one that granted it, let an administrator campaign once with this after_term, and resign.'
  return {
    code: 'INVALID_REQUEST',
    message: `after_term is ${afterTerm}, but the highest term of group "${id}" is ${term}; after_term may be at most ${bound} above it. ${advice}`,
    details: { highest_term: term },
  }
}

/** If either side does not name the start of the node, only the node's id and term identify it. */
function isHolder(lease: GroupLease, { nodeId, term, instance }: HolderClaim): boolean {
  const isOtherStart = instance !== undefined && lease.instance !== undefined && instance !== lease.instance
  return lease.nodeId === nodeId && lease.term === term && !isOtherStart
}

function matches(lease: GroupLease, claim: HolderClaim, { versionPrefix }: DecisionContext): boolean {
  return (
    isHolder(lease, claim) &&
    (claim.attempt === undefined || lease.attempt === claim.attempt) &&
    (claim.version === undefined || versionOf(lease, versionPrefix) === claim.version)
  )
}

function ended(
  group: Group,
  now: DecisionContext,
  end: Omit<Extract<GroupStep, { type: 'end' }>, 'type'>,
): Ruling<never> {
  const record = {
    ...recordOf(group, now),
    ended: end.reason,
    ...(end.successor !== undefined && { successor: end.successor }),
    ...(end.hold && { heldMs: end.hold.heldMs }),
  }
  return { write: { record, step: { type: 'end', ...end } } }
}

function confirmed(group: Group, now: DecisionContext): Ruling<never> {
  return { write: { record: recordOf(group, now), step: { type: 'confirm' } } }
}

/**
 * Returns the record of a group in its current state. A hold that has ended is left out, so that the next restart does
 * not impose it again.
 */
export function recordOf(group: Group, { monotonicMs }: DecisionContext): GroupRecord {
  const { lease, definition, hold } = group
  return {
    term: group.term,
    ...(lease && leaseRecord(lease)),
    ...(lease && lease.term !== group.term && { leaseTerm: lease.term }),
    ...(lease?.end && { ended: lease.end }),
    ...(lease?.successor !== undefined && { successor: lease.successor }),
    ...(group.checkpoint !== '' && { checkpoint: group.checkpoint }),
    ...(definition && definitionRecord(definition)),
    ...(group.deleted && { deleted: true }),
    ...(group.by !== undefined && { by: group.by }),
    ...(hold && hold.untilMs > monotonicMs && { heldMs: hold.heldMs }),
  }
}

function leaseRecord({
  nodeId,
  attempt,
  instance,
  promisedMs,
  acquiredAtMs,
  metadata,
}: Omit<LeaseGrant, 'ttlMs'> & { readonly promisedMs: number }): Partial<GroupRecord> {
  return {
    node: nodeId,
    attempt,
    ...(instance !== undefined && { instance }),
    ttl: promisedMs,
    at: acquiredAtMs,
    ...(metadata !== noMetadata && { meta: metadata }),
  }
}

function definitionRecord({ policy, allowedNodes }: Definition): Pick<GroupRecord, 'min' | 'max' | 'allowed'> {
  return { min: policy.minTtlMs, max: policy.maxTtlMs, allowed: allowedNodes }
}

function isSameDefinition(one: Definition, other: Definition): boolean {
  return JSON.stringify(definitionRecord(one)) === JSON.stringify(definitionRecord(other))
}
