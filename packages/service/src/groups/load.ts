import type { Definition } from './groups.ts'
import type { FoundGroup, GroupRecord, Loaded } from '../storage/storage.ts'
import type { GroupBytes } from './group-bytes.ts'
import { Group, GroupLease, noMetadata, type Stalls } from './group.ts'
import { firstTerm } from './group-table.ts'

/** The options of {@link loadGroups}. */
export interface LoadOptions {
  readonly stalls: Stalls
  /** Counts the memory of each group. */
  readonly bytes: GroupBytes
  /** How much longer than its duration each lease lasts: a predecessor may have confirmed it that much later. */
  readonly graceMs: number
}

/**
 * Loads all groups of a storage, page by page. Other callbacks run in between. Every lease lasts for the longest
 * duration promised in its term, plus the grace. That time is counted from 0 here, and starts with `LocalGroups.serve`,
 * at one moment for all.
 */
export async function* loadGroups({ head, pages }: Loaded, options: LoadOptions): AsyncGenerator<Group[]> {
  const start = { ...options, names: new Names(), restores: head.restores }
  for await (const page of pages) yield page.map((found) => groupOf(found, start))
}

interface Start extends LoadOptions {
  readonly names: Names
  readonly restores: number
}

function groupOf({ id, record, seq }: FoundGroup, { bytes, graceMs, names, restores, stalls }: Start): Group {
  const restoresSince = restores - (record.restores ?? 0)
  const group = new Group(id, firstTerm(restoresSince, record.term))
  group.seq = seq
  bytes.set(group, record)
  group.carry = record.carry ?? ''
  group.deleted = record.deleted ?? false
  group.definition = definitionOf(record)
  if (record.heldMs !== undefined) group.hold = { untilMs: record.heldMs, heldMs: record.heldMs }
  if (record.node === undefined) return group
  const ttlMs = record.ttl ?? 0
  const grant = {
    term: record.leaseTerm ?? record.term,
    nodeId: names.shared(record.node),
    attempt: record.attempt ?? '',
    instance: record.instance,
    metadata: record.meta ?? noMetadata,
    acquiredAtMs: record.at ?? 0,
    ttlMs,
  }
  const lease = new GroupLease(group, grant, ttlMs + graceMs, stalls)
  lease.end = record.ended
  // The node has not been seen since the start.
  lease.hasLeft = lease.ended
  // From a backup: higher terms may have been granted since, so this term must not continue. But its holder may believe
  // that it leads.
  if (!lease.ended && restoresSince > 0) {
    lease.end = true
    group.hold = { untilMs: ttlMs + graceMs, heldMs: ttlMs + graceMs }
  }
  group.lease = lease
  return group
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
