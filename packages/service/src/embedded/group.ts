import type { Definition, LeaseView, Metadata } from '../state.ts'
import type { Stored } from './disk.ts'

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
  /** Nobody may lead before, although the lease was ended by force. */
  freeAtMs = 0
  /** How long that is after a restart. */
  heldMs = 0
  /** A write under way. Whoever decides anything durable about this group waits for it. */
  busy: Promise<unknown> | undefined
  line: Set<Waiter> | undefined

  constructor(id: string) {
    this.id = id
  }
}

/** What the disk keeps of a group as it is. */
export function storedOf(group: Group, lease: Lease | undefined = group.lease): Stored {
  const { definition } = group
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
    ...(definition && { min: definition.policy.minTtlMs, max: definition.policy.maxTtlMs }),
    ...(definition?.allowedNodes && { allowed: definition.allowedNodes }),
    ...(group.deleted && { deleted: true }),
    ...(group.heldMs > 0 && { heldMs: group.heldMs }),
  }
}

/** A lease as others see it. `versionPrefix` makes versions of one run differ from those of every other. */
export function viewOf(lease: Lease, nowMs: number, versionPrefix: string): LeaseView {
  const live = !lease.ended && nowMs < lease.expiresAtMs
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
