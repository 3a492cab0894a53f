import type { Definition, LeaseView, Metadata } from '../state.ts'
import type { Stored } from './records.ts'

/** One for all: most leases have none, and there may be a million of them. */
export const noMetadata: Metadata = Object.freeze({})

/** A lease of a group. Over once `ended`; until that is on disk, nobody is told. */
export class Lease {
  readonly group: Group
  readonly term: number
  readonly nodeId: string
  readonly attempt: string
  readonly metadata: Metadata
  readonly acquiredAtMs: number
  renewedAtMs: number
  /** On the monotonic clock. */
  expiresAtMs: number
  /** The longest duration promised in this term, as the disk knows it. */
  promisedMs: number
  ttlMs: number
  renewals = 0
  ended = false

  constructor(
    group: Group,
    grant: Pick<Lease, 'term' | 'nodeId' | 'attempt' | 'metadata' | 'acquiredAtMs' | 'ttlMs' | 'expiresAtMs'>,
  ) {
    this.group = group
    this.term = grant.term
    this.nodeId = grant.nodeId
    this.attempt = grant.attempt
    this.metadata = grant.metadata
    this.acquiredAtMs = grant.acquiredAtMs
    this.renewedAtMs = grant.acquiredAtMs
    this.ttlMs = grant.ttlMs
    this.promisedMs = grant.ttlMs
    this.expiresAtMs = grant.expiresAtMs
  }

  isLive(nowMs: number): boolean {
    return !this.ended && nowMs < this.expiresAtMs
  }
}

const skippedTerms = 1_000_000

/**
 * The term that a group counts on from. After a restored backup nobody knows which terms have been granted since, so a
 * great many are skipped, in each group above its own.
 */
export function firstTerm(restores: number, term = 0): number {
  return Math.min(term + restores * skippedTerms, Number.MAX_SAFE_INTEGER)
}

/** Although nobody leads, nobody may. */
export interface Hold {
  readonly untilMs: number
  /** How long that is after a restart. */
  readonly heldMs: number
}

/** Somebody in line for a group. */
export interface Waiter {
  /** Called when the group may be free. */
  wake(): void
}

export class Group {
  readonly id: string
  /** The highest term that was granted, or tried to be: none is used twice. */
  term = 0
  /** The newest lease, live or over. */
  lease: Lease | undefined
  definition: Definition | undefined
  carry = ''
  deleted = false
  hold: Hold | undefined
  /** A write under way. Whoever decides anything durable about this group waits for it. */
  busy: Promise<unknown> | undefined
  line: Set<Waiter> | undefined

  constructor(id: string, term: number) {
    this.id = id
    this.term = term
  }

  /** How long nobody may lead although nobody does. */
  freeInMs(nowMs: number): number {
    if (!this.hold) return 0
    const leftMs = this.hold.untilMs - nowMs
    if (leftMs <= 0) this.hold = undefined
    return Math.max(0, leftMs)
  }
}

/** What the disk keeps of a group as it is. */
export function storedOf(group: Group, lease: Lease | undefined): Stored {
  const { definition, hold } = group
  return {
    term: group.term,
    ...(lease && {
      node: lease.nodeId,
      attempt: lease.attempt,
      ttl: lease.promisedMs,
      at: lease.acquiredAtMs,
      ...(lease.term !== group.term && { leaseTerm: lease.term }),
      ...(lease.ended && { ended: true }),
      ...(Object.keys(lease.metadata).length > 0 && { meta: lease.metadata }),
    }),
    ...(group.carry !== '' && { carry: group.carry }),
    ...(definition && storedDefinition(definition)),
    ...(group.deleted && { deleted: true }),
    ...(hold && { heldMs: hold.heldMs }),
  }
}

export function storedDefinition({ policy, allowedNodes }: Definition): Pick<Stored, 'min' | 'max' | 'allowed'> {
  return { min: policy.minTtlMs, max: policy.maxTtlMs, allowed: allowedNodes }
}

/** A lease as others see it. `versionPrefix` makes versions of one run differ from those of every other. */
export function viewOf(lease: Lease, nowMs: number, versionPrefix: string): LeaseView {
  const live = lease.isLive(nowMs)
  return {
    nodeId: lease.nodeId,
    attempt: lease.attempt,
    term: lease.term,
    ttlMs: lease.ttlMs,
    remainingMs: live ? lease.expiresAtMs - nowMs : 0,
    acquiredAtMs: lease.acquiredAtMs,
    renewedAtMs: lease.renewedAtMs,
    metadata: lease.metadata,
    carry: lease.group.carry,
    version: `${versionPrefix}.${lease.term}.${lease.renewals}${lease.ended ? '.ended' : ''}`,
    ended: !live,
  }
}
