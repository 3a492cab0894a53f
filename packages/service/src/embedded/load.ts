import type { Definition } from '../state.ts'
import type { Core } from './core.ts'
import type { Endings } from './endings.ts'
import { firstTerm, Group, Lease, noMetadata } from './group.ts'
import type { Stored } from './records.ts'

/** Brings all groups into memory. Every lease found counts from now, for the longest that was promised in its term. */
export function load(core: Core, endings: Endings): void {
  const nowMs = core.clock.monotonicMs()
  const names = new Names()
  for (const { id, stored } of core.disk.all()) {
    const group = groupOf(id, stored, { nowMs, names, restores: core.disk.restores })
    core.groups.set(id, group)
    if (group.lease && !group.lease.ended) endings.add(group.lease)
  }
  endings.arm()
}

interface Start {
  readonly nowMs: number
  readonly names: Names
  readonly restores: number
}

function groupOf(id: string, stored: Stored, { nowMs, names, restores }: Start): Group {
  const restoresSince = restores - (stored.restores ?? 0)
  const group = new Group(id, firstTerm(restoresSince, stored.term))
  group.carry = stored.carry ?? ''
  group.deleted = stored.deleted ?? false
  group.definition = definitionOf(stored)
  if (stored.heldMs !== undefined) group.hold = { untilMs: nowMs + stored.heldMs, heldMs: stored.heldMs }
  if (stored.node === undefined) return group
  const ttlMs = stored.ttl ?? 0
  const lease = new Lease(group, {
    term: stored.leaseTerm ?? stored.term,
    nodeId: names.shared(stored.node),
    attempt: stored.attempt ?? '',
    metadata: stored.meta ?? noMetadata,
    acquiredAtMs: stored.at ?? 0,
    ttlMs,
    expiresAtMs: nowMs + ttlMs,
  })
  lease.ended = stored.ended ?? false
  // From a backup: higher terms may have been granted since, so it must not lead again. Its holder may believe it does.
  if (!lease.ended && restoresSince > 0) {
    lease.ended = true
    group.hold = { untilMs: nowMs + ttlMs, heldMs: ttlMs }
  }
  group.lease = lease
  return group
}

/** One text for each name: a node may hold a great many leases. */
class Names {
  readonly #known = new Map<string, string>()

  shared(name: string): string {
    const known = this.#known.get(name)
    if (known !== undefined) return known
    if (this.#known.size < 100_000) this.#known.set(name, name)
    return name
  }
}

function definitionOf({ min, max, allowed, deleted }: Stored): Definition | undefined {
  if (min === undefined || max === undefined || deleted) return undefined
  return { policy: { minTtlMs: min, maxTtlMs: max }, allowedNodes: allowed }
}
