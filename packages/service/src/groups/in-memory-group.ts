import type { MetadataText } from '../common/checks.ts'
import type { Definition, LeaseView } from './port.ts'
import type { EndReason } from '../storage/storage.ts'

/** Shared by all leases without metadata. There may be a million of them. */
export const noMetadata: MetadataText = '{}'

/** The time base for leases. */
export interface LeaseTime {
  /** How long the service has been stalled since it was started. */
  readonly stalledMs: number
  /**
   * The origin of the lease's times, on the monotonic clock. It may change once, when the service starts to
   * answer.
   */
  readonly startMs: number
}

/** A lease is extended by the time for which the service was stalled, up to the lease's duration divided by this. */
const forgivenPart = 4

/** The constant part of a lease. */
export interface LeaseGrant {
  readonly term: number
  readonly nodeId: string
  readonly attempt: string
  /** Identifies one start of the node's process. Undefined if the node sent no instance id. */
  readonly instance?: string | undefined
  readonly metadata: MetadataText
  /** In Unix milliseconds, for display only. */
  readonly acquiredAtMs: number
  readonly ttlMs: number
  readonly writeId?: string | undefined
}

/** A lease of a group. `ended` is set once the end of the lease is durable. */
export class GroupLease {
  readonly group: Group
  readonly term: number
  readonly nodeId: string
  readonly attempt: string
  readonly instance: string | undefined
  /** Dropped some time after the lease has ended. */
  metadata: MetadataText
  readonly acquiredAtMs: number
  renewedAtMs: number
  /** Relative to the start, not counting forgiven stalls. */
  #untilMs: number
  readonly #time: LeaseTime
  /** How long the service had been stalled in total when the lease was last extended. */
  #stalledBeforeMs: number
  /** The longest duration that was promised in this term and recorded in the storage. */
  promisedMs: number
  ttlMs: number
  renewals = 0
  /** The write id of the newest claim. Kept only in memory, like renewals. */
  writeId: string | undefined
  /** The node that should lead next, if the lease was ended and that node was named. */
  successor: string | undefined
  /** When the lease was handed over, relative to the start. */
  #handedOverMs = 0
  /** The subject that last renewed the lease, if subjects are charged for renewals. */
  subject: string | undefined
  /** Why the lease ended: true if a restore ended it. Undefined while the lease lasts. */
  end: EndReason | true | undefined
  /**
   * Whether the holder released the lease, or has not been seen since the start. Such a node does not count as a
   * candidate.
   */
  hasLeft = false

  /** `untilMs` is relative to the start. */
  constructor(group: Group, grant: LeaseGrant, untilMs: number, time: LeaseTime) {
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
    this.writeId = grant.writeId
    this.#untilMs = untilMs
    this.#time = time
    this.#stalledBeforeMs = time.stalledMs
  }

  get ended(): boolean {
    return this.end !== undefined
  }

  /** On the monotonic clock. */
  get expiresAtMs(): number {
    const { startMs, stalledMs } = this.#time
    return startMs + this.#untilMs + Math.min(stalledMs - this.#stalledBeforeMs, this.ttlMs / forgivenPart)
  }

  /** `untilMs` is on the monotonic clock. */
  extend(untilMs: number, ttlMs: number): void {
    this.#untilMs = untilMs - this.#time.startMs
    this.ttlMs = ttlMs
    this.#stalledBeforeMs = this.#time.stalledMs
  }

  /** When the lease was handed over, on the monotonic clock. The start of this process if that was before it. */
  get handedOverAtMs(): number {
    return this.#time.startMs + this.#handedOverMs
  }

  /** Names the node that should lead next, if any. Call it when the lease ends. */
  handOver(successor: string | undefined, nowMs: number): void {
    this.successor = successor
    this.#handedOverMs = successor === undefined ? 0 : nowMs - this.#time.startMs
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
export interface PendingWrite {
  /** Settles when the write does. Never rejects. */
  readonly done: Promise<void>
  /**
   * Whether the write takes nothing away from the lease. If so, a renewal that needs no write of its own does not wait
   * for it.
   */
  readonly adds: boolean
}

/** A campaign that waits for a group. */
export interface CampaignWaiter {
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
  checkpoint = ''
  deleted = false
  /**
   * The `seq` of the head that the group's record was written with. 0 if there is no record, or if the `seq` was not
   * recorded.
   */
  seq = 0
  hold: Hold | undefined
  /** The subject that is charged for the group's memory, in short form. Undefined if no subject is charged. */
  by: string | undefined
  /** How many bytes the group takes from the memory budget for groups. */
  bytes = 0
  pendingWrite: PendingWrite | undefined
  campaignQueue: Set<CampaignWaiter> | undefined

  constructor(id: string, term: number) {
    this.id = id
    this.term = term
  }

  /** The longest time for which anyone may rely on a lease of this group, as known to this process. */
  get longestMs(): number {
    return Math.max(this.lease?.promisedMs ?? 0, this.definition?.policy.maxTtlMs ?? 0, this.hold?.heldMs ?? 0)
  }

  /** Returns how long nothing may be granted even though the group has no leader. */
  freeInMs(nowMs: number): number {
    return this.hold ? Math.max(0, this.hold.untilMs - nowMs) : 0
  }
}

export function isAllowed({ allowedNodes }: Definition, nodeId: string): boolean {
  return !allowedNodes || allowedNodes.includes(nodeId)
}

/**
 * Returns a lease as clients see it. `versionPrefix` makes the versions of this run different from those of every other
 * run.
 */
export function viewOf(lease: GroupLease, nowMs: number, versionPrefix: string): LeaseView {
  return {
    nodeId: lease.nodeId,
    attempt: lease.attempt,
    instance: lease.instance,
    term: lease.term,
    ttlMs: lease.ttlMs,
    remainingMs: lease.isLive(nowMs) ? lease.expiresAtMs - nowMs : 0,
    acquiredAtMs: lease.acquiredAtMs,
    renewedAtMs: lease.renewedAtMs,
    metadata: lease.metadata,
    checkpoint: lease.group.checkpoint,
    version: versionOf(lease, versionPrefix),
    writeId: lease.writeId,
    successor: lease.successor,
    // Do not decide this by the clock. An end that is shown must be durable, and watchers are notified only once it is.
    ended: lease.ended,
  }
}

/** Returns the version of a lease. Every change of the lease changes it. */
export function versionOf({ term, renewals, ended }: GroupLease, versionPrefix: string): string {
  return `${versionPrefix}.${term}.${renewals}${ended ? '.ended' : ''}`
}
