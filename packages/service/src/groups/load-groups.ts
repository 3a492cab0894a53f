import { firstTerm } from '../storage/skipped-terms.ts'
import type { GroupRecord, Loaded, LoadedGroup } from '../storage/storage.ts'
import { EndedGroups, type Retention } from './ended-groups.ts'
import { ExpiryQueue } from './expiry-queue.ts'
import { GroupBytes } from './group-bytes.ts'
import { GroupMetrics } from './group-metrics.ts'
import { GroupTable } from './group-table.ts'
import { Group, GroupLease, noMetadata, type LeaseTime } from './in-memory-group.ts'
import type { Definition } from './port.ts'
import type { ServingClock } from './serving-clock.ts'

/** The options of {@link LoadedGroups}. */
export interface LoadOptions {
  readonly clock: ConstructorParameters<typeof GroupMetrics>[1]
  /**
   * How much longer than its duration each lease lasts, because a predecessor may have confirmed the lease that much
   * later.
   */
  readonly graceMs: number
  readonly maxGroups: number
  /** The approximate limit in bytes of memory for all groups. Default: no limit. */
  readonly maxGroupBytes?: number | undefined
  /** The same for the groups of one subject. Default: 0, no limit. */
  readonly groupBytesPerSubject?: number | undefined
  /** How long the data of a group without a leader is kept. Default: see ended-groups.ts. */
  readonly retention?: Retention | undefined
  /** Ids of groups that have their own metrics. `*` matches any characters. Default: none. */
  readonly metricsGroups?: readonly string[] | undefined
}

/**
 * The time base of loaded leases. It is 0 until {@link LoadedTime.start}, so that a million leases can be prepared in
 * advance, and then all begin at the same moment in one step.
 */
class LoadedTime implements LeaseTime {
  startMs = 0
  #clock: ServingClock | undefined
  #stalledBeforeMs = 0

  get stalledMs(): number {
    return this.#clock ? this.#clock.stalledMs - this.#stalledBeforeMs : 0
  }

  start(nowMs: number, clock: ServingClock): void {
    this.startMs = nowMs
    this.#clock = clock
    this.#stalledBeforeMs = clock.stalledMs
  }
}

/**
 * Groups that were loaded from a storage but do not answer requests yet. Every lease lasts for the longest duration
 * promised in its term, plus the grace. Until {@link start} that time is relative to 0.
 */
export class LoadedGroups {
  readonly table: GroupTable
  readonly metrics: GroupMetrics
  readonly expiries = new ExpiryQueue<GroupLease>()
  readonly ended: EndedGroups
  /** The longest time for which anyone may rely on a lease that was loaded. */
  longestMs = 0
  readonly #names = new Names()
  readonly #time = new LoadedTime()
  readonly #held = new Set<Group>()
  readonly #restores: number
  readonly #graceMs: number

  /** `restores` is the value in the storage's head. */
  constructor(restores: number, options: LoadOptions) {
    this.#restores = restores
    this.#graceMs = options.graceMs
    this.metrics = new GroupMetrics(options.metricsGroups ?? [], options.clock)
    const bytes = new GroupBytes(options.maxGroupBytes ?? Infinity, options.groupBytesPerSubject ?? 0)
    this.table = new GroupTable(restores, options.maxGroups, { shown: this.metrics, bytes })
    this.ended = new EndedGroups(options.retention)
  }

  /** Adds a group, or replaces it if this record was written later than the one that was added before. */
  add(found: LoadedGroup): void {
    const known = this.table.get(found.id)
    if (known && known.seq >= found.seq) return
    if (known) this.#forget(known)
    const group = this.#groupOf(found)
    this.table.bytes.set(group, found.record)
    this.table.add(group)
    if (group.hold) this.#held.add(group)
    if (group.lease?.ended) this.ended.add(group, 0)
    else if (group.lease) this.expiries.add(group.lease)
    this.longestMs = Math.max(this.longestMs, group.longestMs)
  }

  #forget(group: Group): void {
    this.#held.delete(group)
    this.ended.delete(group)
    if (!group.lease || group.lease.ended) return
    // The queue drops leases that have ended.
    group.lease.end = true
    this.expiries.endedEarly()
  }

  /** Starts every lease and every hold at this moment. */
  start(nowMs: number, clock: ServingClock): void {
    this.#time.start(nowMs, clock)
    this.expiries.delay(nowMs)
    this.ended.start(nowMs)
    this.metrics.start(nowMs)
    for (const group of this.#held) {
      if (group.hold) group.hold = { ...group.hold, untilMs: group.hold.untilMs + nowMs }
    }
    this.#held.clear()
  }

  #groupOf({ id, record, seq }: LoadedGroup): Group {
    const restoresSince = this.#restores - (record.restores ?? 0)
    const group = new Group(id, firstTerm(restoresSince, record.term))
    group.seq = seq
    group.checkpoint = record.checkpoint ?? ''
    group.deleted = record.deleted ?? false
    group.definition = definitionOf(record)
    if (record.heldMs !== undefined) group.hold = { untilMs: record.heldMs, heldMs: record.heldMs }
    if (record.node === undefined) return group
    const ttlMs = record.ttl ?? 0
    const untilMs = ttlMs + this.#graceMs
    const grant = {
      term: record.leaseTerm ?? record.term,
      nodeId: this.#names.shared(record.node),
      attempt: record.attempt ?? '',
      instance: record.instance,
      metadata: record.meta ?? noMetadata,
      acquiredAtMs: record.at ?? 0,
      ttlMs,
    }
    const lease = new GroupLease(group, grant, untilMs, this.#time)
    lease.end = record.ended
    lease.successor = record.successor
    // The node has not been seen since the start.
    lease.hasLeft = lease.ended
    // This lease is from a backup. Higher terms may have been granted since, so this term must not continue. Its holder
    // may still believe that it leads.
    if (!lease.ended && restoresSince > 0) {
      lease.end = true
      group.hold = { untilMs, heldMs: untilMs }
    }
    group.lease = lease
    return group
  }
}

/** Loads all groups of a storage. Other callbacks run between pages. */
export async function loadGroups({ head, pages }: Loaded, options: LoadOptions): Promise<LoadedGroups> {
  const groups = new LoadedGroups(head.restores, options)
  for await (const page of pages) for (const group of page) groups.add(group)
  return groups
}

/** Shares one string for each name, because a node may hold many leases. */
class Names {
  readonly #known = new Map<string, string>()

  shared(name: string): string {
    const known = this.#known.get(name)
    if (known !== undefined) return known
    if (this.#known.size < 100_000) this.#known.set(name, name)
    return name
  }
}

function definitionOf({ min, max, allowed, deleted }: GroupRecord): Definition | undefined {
  if (min === undefined || max === undefined || deleted) return undefined
  return { policy: { minTtlMs: min, maxTtlMs: max }, allowedNodes: allowed }
}
