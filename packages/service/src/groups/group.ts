import type { Definition, LeaseView, MetadataText } from './groups.ts'
import type { EndReason } from '../storage/storage.ts'

/** Shared by all leases without metadata, which are most of possibly a million. */
export const noMetadata: MetadataText = '{}'

/** How long the service has been stalled since it was started. */
export interface Stalls {
  readonly stalledMs: number
}

/** A lease lasts longer by the time in which the service was stalled, up to its duration divided by this. */
const forgivenPart = 4

/** The constant part of a lease. */
export interface LeaseGrant {
  readonly term: number
  readonly nodeId: string
  readonly attempt: string
  /** The id of the node's start, if it named one. */
  readonly instance?: string | undefined
  readonly metadata: MetadataText
  /** In Unix milliseconds, for display only. */
  readonly acquiredAtMs: number
  readonly ttlMs: number
  readonly mark?: string | undefined
}

/** A lease of a group. It has ended once `ended` is true, which is set when the end is durable. */
export class GroupLease {
  readonly group: Group
  readonly term: number
  readonly nodeId: string
  readonly attempt: string
  readonly instance: string | undefined
  /** Dropped some time after the end. */
  metadata: MetadataText
  readonly acquiredAtMs: number
  renewedAtMs: number
  /** On the monotonic clock, without the forgiven time. */
  #untilMs: number
  readonly #stalls: Stalls
  /** How long the service had been stalled in total when the lease was last extended. */
  #stalledBeforeMs: number
  /** The longest duration promised in this term, as recorded in the storage. */
  promisedMs: number
  ttlMs: number
  renewals = 0
  /** The write id of the newest claim. Kept only in memory, like renewals. */
  mark: string | undefined
  /** The subject that renewed it last, if renewals are charged. */
  subject: string | undefined
  /** Why it ended, or true if the reason was not recorded. Undefined while it lasts. */
  end: EndReason | true | undefined
  /** Its holder released it, or has not been seen since the start. Such a node does not count as a candidate. */
  hasLeft = false

  constructor(group: Group, grant: LeaseGrant, untilMs: number, stalls: Stalls) {
    this.group = group
    this.term = grant.term
    this.nodeId = grant.nodeId
    this.attempt = grant.attempt
    this.instance = grant.instance
    this.metadata = grant.metadata
    this.acquiredAtMs = grant.acquiredAtMs
    this.renewedAtMs = grant.acquiredAtMs
    this.ttlMs = grant.ttlMs
    this.promisedMs = grant.ttlMs
    this.mark = grant.mark
    this.#untilMs = untilMs
    this.#stalls = stalls
    this.#stalledBeforeMs = stalls.stalledMs
  }

  get ended(): boolean {
    return this.end !== undefined
  }

  /** On the monotonic clock. */
  get expiresAtMs(): number {
    return this.#untilMs + Math.min(this.#stalls.stalledMs - this.#stalledBeforeMs, this.ttlMs / forgivenPart)
  }

  extend(untilMs: number, ttlMs: number): void {
    this.#untilMs = untilMs
    this.ttlMs = ttlMs
    this.#stalledBeforeMs = this.#stalls.stalledMs
  }

  /** Starts counting from this moment. Until then the expiry was counted from 0. */
  begin(nowMs: number): void {
    this.extend(this.#untilMs + nowMs, this.ttlMs)
  }

  isLive(nowMs: number): boolean {
    return !this.ended && nowMs < this.expiresAtMs
  }
}

/** The group has no leader, but nothing may be granted in it yet. */
export interface Hold {
  readonly untilMs: number
  /** How long the hold lasts after a restart. */
  readonly heldMs: number
}

/** Returns the hold that ends later, which satisfies both. */
export function longerHold(one: Hold | undefined, other: Hold | undefined): Hold | undefined {
  if (!one || !other) return one ?? other
  return one.untilMs < other.untilMs ? other : one
}

/** A write of a group that is in flight. */
export interface Writing {
  /** Never rejects. */
  readonly done: Promise<void>
  /** Whether it takes nothing away from the lease. Then a renewal that needs no write need not wait for it. */
  readonly adds: boolean
}

/** A campaign that waits for a group. */
export interface Waiter {
  readonly nodeId: string
  /** Called when the group may be free. */
  wake(): void
}

/** The state of a group. Only `GroupDriver` changes it. */
export class Group {
  readonly id: string
  /** The highest term that was granted or tried. No term is used twice. */
  term: number
  /** The newest lease, live or ended. */
  lease: GroupLease | undefined
  definition: Definition | undefined
  carry = ''
  deleted = false
  /** The `seq` of the head its record was written with. 0 if there is no record, or if that was not recorded. */
  seq = 0
  hold: Hold | undefined
  /** The subject to which its memory is charged, abbreviated. Undefined if none is. */
  by: string | undefined
  /** How many bytes it takes of the memory for groups. */
  bytes = 0
  writing: Writing | undefined
  line: Set<Waiter> | undefined

  constructor(id: string, term: number) {
    this.id = id
    this.term = term
  }

  /** The longest time that anyone may rely on a lease of this group, as far as is known. */
  get longestMs(): number {
    return Math.max(this.lease?.promisedMs ?? 0, this.definition?.policy.maxTtlMs ?? 0, this.hold?.heldMs ?? 0)
  }

  /** Returns how long nothing may be granted although the group has no leader. */
  freeInMs(nowMs: number): number {
    return this.hold ? Math.max(0, this.hold.untilMs - nowMs) : 0
  }
}

/** Returns a lease as clients see it. `versionPrefix` makes versions of one run differ from those of every other. */
export function viewOf(lease: GroupLease, nowMs: number, versionPrefix: string): LeaseView {
  const live = lease.isLive(nowMs)
  return {
    nodeId: lease.nodeId,
    attempt: lease.attempt,
    instance: lease.instance,
    term: lease.term,
    ttlMs: lease.ttlMs,
    remainingMs: live ? lease.expiresAtMs - nowMs : 0,
    acquiredAtMs: lease.acquiredAtMs,
    renewedAtMs: lease.renewedAtMs,
    metadata: lease.metadata,
    carry: lease.group.carry,
    version: versionOf(lease, versionPrefix),
    mark: lease.mark,
    ended: !live,
  }
}

/** Returns the version of a lease. Every change of the lease changes it. */
export function versionOf({ term, renewals, ended }: GroupLease, versionPrefix: string): string {
  return `${versionPrefix}.${term}.${renewals}${ended ? '.ended' : ''}`
}
