import type { Definition, LeaseView, MetadataText } from './groups.ts'
import type { EndReason } from '../storage/storage.ts'

/** One for all: most leases have none, and there may be a million of them. */
export const noMetadata: MetadataText = '{}'

/** How long the service has stood still since it was started. */
export interface Stalls {
  readonly stalledMs: number
}

/** A lease lasts longer by the time in which the service stood still, up to this part of its duration. */
const forgivenPart = 4

/** What is constant of a lease. */
export interface LeaseGrant {
  readonly term: number
  readonly nodeId: string
  readonly attempt: string
  /** The start of the node, if it named one. */
  readonly instance?: string | undefined
  readonly metadata: MetadataText
  /** Unix time, for people. */
  readonly acquiredAtMs: number
  readonly ttlMs: number
  readonly mark?: string | undefined
}

/** A lease of a group. It is over once `ended`, which is set when that is durable. */
export class GroupLease {
  readonly group: Group
  readonly term: number
  readonly nodeId: string
  readonly attempt: string
  readonly instance: string | undefined
  /** Dropped a while after the end. */
  metadata: MetadataText
  readonly acquiredAtMs: number
  renewedAtMs: number
  /** On the monotonic clock, without what is forgiven. */
  #untilMs: number
  readonly #stalls: Stalls
  /** How long the service had stood still when the lease was last extended. */
  #stalledBeforeMs: number
  /** The longest duration promised in this term, as the storage knows it. */
  promisedMs: number
  ttlMs: number
  renewals = 0
  /** What the claim of the newest write was marked with. Kept in memory alone, where renewals are. */
  mark: string | undefined
  /** Who renewed it last, if that is charged for. */
  subject: string | undefined
  /** Why it is over; true where that was not noted. */
  end: EndReason | true | undefined
  /** Its holder gave it back, or was not heard of since the start: it is not taken for somebody who takes part. */
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

  /** Of a lease whose end was counted from 0: it is counted from this moment. */
  begin(nowMs: number): void {
    this.extend(this.#untilMs + nowMs, this.ttlMs)
  }

  isLive(nowMs: number): boolean {
    return !this.ended && nowMs < this.expiresAtMs
  }
}

/** Although nobody leads, nobody may. */
export interface Hold {
  readonly untilMs: number
  /** How long that is after a restart. */
  readonly heldMs: number
}

/** Both are kept by the one that ends later. */
export function longerHold(one: Hold | undefined, other: Hold | undefined): Hold | undefined {
  if (!one || !other) return one ?? other
  return one.untilMs < other.untilMs ? other : one
}

/** A write of a group that is under way. */
export interface Writing {
  /** Never rejects. */
  readonly done: Promise<void>
  /** It takes nothing away from the lease: a renewal that needs no write need not wait for it. */
  readonly adds: boolean
}

/** Somebody in line for a group. */
export interface Waiter {
  readonly nodeId: string
  /** Called when the group may be free. */
  wake(): void
}

/** What is known of a group. Only `LocalGroups` changes it, in one place. */
export class Group {
  readonly id: string
  /** The highest term that was granted, or tried to be: none is used twice. */
  term: number
  /** The newest lease, live or over. */
  lease: GroupLease | undefined
  definition: Definition | undefined
  carry = ''
  deleted = false
  /** `seq` of the head that its record was written with; 0 if it has none, or if that was not noted. */
  seq = 0
  hold: Hold | undefined
  /** The subject to which its memory is charged, in short; undefined: nobody. */
  by: string | undefined
  /** What it takes of the memory for groups. */
  bytes = 0
  writing: Writing | undefined
  line: Set<Waiter> | undefined

  constructor(id: string, term: number) {
    this.id = id
    this.term = term
  }

  /** The longest that somebody may rely on a lease, by what is known of this group. */
  get longestMs(): number {
    return Math.max(this.lease?.promisedMs ?? 0, this.definition?.policy.maxTtlMs ?? 0, this.hold?.heldMs ?? 0)
  }

  /** How long nobody may lead although nobody does. */
  freeInMs(nowMs: number): number {
    return this.hold ? Math.max(0, this.hold.untilMs - nowMs) : 0
  }
}

/** A lease as others see it. `versionPrefix` makes versions of one run differ from those of every other. */
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

/** Every change of a lease makes another one. */
export function versionOf({ term, renewals, ended }: GroupLease, versionPrefix: string): string {
  return `${versionPrefix}.${term}.${renewals}${ended ? '.ended' : ''}`
}
