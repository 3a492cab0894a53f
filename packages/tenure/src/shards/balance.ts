/**
 * Balancing: which free shards are granted to whom, and which owned shards are taken away so that others can have them.
 * A pure function of the shards and the living members. Nothing here can break S1: a grant concerns only shards that are
 * free, and a revocation only asks for one.
 *
 * Sticky: a shard moves only if its owner leaves or has at least two shards more than a member that may receive one.
 * Fair (S4): once nothing changes, loads differ by at most one. When one of N members joins or leaves, at most ⌈K/N⌉ of
 * K shards move.
 */
import { bySeat, type MemberId, type ShardState } from './assignment.ts'

/** A living member, as far as balancing is concerned. */
export interface BalancedMember {
  readonly member: MemberId
  /** It hands its shards over, and gets nothing. */
  readonly isLeaving: boolean
  /** It has been present for one lease. Shards are taken from others only for such members. */
  readonly isEstablished: boolean
}

/** What to change. */
export interface Changes {
  readonly grants: ReadonlyMap<number, MemberId>
  readonly revocations: readonly number[]
}

/** Returns the changes that bring the shards closer to balance, with at most `maxMoves` shards in motion. */
export function balance(shards: readonly ShardState[], living: readonly BalancedMember[], maxMoves: number): Changes {
  const receivers = living.filter(({ isLeaving }) => !isLeaving).toSorted((a, b) => bySeat(a.member, b.member))
  const owned = new Map<string, number[]>(living.map(({ member }) => [member.attempt, []]))
  for (const [shard, of] of shards.entries()) if (of.state === 'owned') owned.get(of.owner.attempt)?.push(shard)
  const loads = new Map(receivers.map(({ member }) => [member.attempt, owned.get(member.attempt)?.length ?? 0]))
  const add = (member: MemberId | undefined, count: number) =>
    member && loads.set(member.attempt, (loads.get(member.attempt) ?? 0) + count)

  // Each free shard is granted immediately, to the member that has the fewest shards.
  const grants = new Map<number, MemberId>()
  for (const [shard, { state }] of shards.entries()) {
    const least = state === 'free' ? leastLoaded(receivers, loads) : undefined
    if (least) grants.set(shard, least)
    add(least, 1)
  }
  // A shard in motion will be granted in the same way.
  const inMotion = shards.filter(({ state }) => state === 'revoked').length
  for (let count = 0; count < inMotion; count += 1) add(leastLoaded(receivers, loads), 1)

  const revocations: number[] = []
  const isFull = () => inMotion + revocations.length >= maxMoves
  for (const { member, isLeaving } of living) {
    for (const shard of isLeaving ? (owned.get(member.attempt) ?? []) : []) {
      if (isFull()) break
      revocations.push(shard)
      add(leastLoaded(receivers, loads), 1)
    }
  }
  const established = receivers.filter(({ isEstablished }) => isEstablished)
  while (!isFull()) {
    const donors = receivers.filter(({ member }) => (owned.get(member.attempt)?.length ?? 0) > 0)
    const donor = mostLoaded(donors, loads)
    const receiver = leastLoaded(established, loads)
    if (!donor || !receiver) break
    if ((loads.get(donor.attempt) ?? 0) - (loads.get(receiver.attempt) ?? 0) < 2) break
    const shard = owned.get(donor.attempt)?.pop()
    if (shard !== undefined) revocations.push(shard)
    add(donor, -1)
    add(receiver, 1)
  }
  return { grants, revocations }
}

function leastLoaded(members: readonly BalancedMember[], loads: ReadonlyMap<string, number>): MemberId | undefined {
  return extreme(members, ({ attempt }) => loads.get(attempt) ?? 0)
}

function mostLoaded(members: readonly BalancedMember[], loads: ReadonlyMap<string, number>): MemberId | undefined {
  return extreme(members, ({ attempt }) => -(loads.get(attempt) ?? 0))
}

/** Returns the first member with the lowest value. */
function extreme(members: readonly BalancedMember[], valueOf: (member: MemberId) => number): MemberId | undefined {
  let lowest: MemberId | undefined
  for (const { member } of members) if (!lowest || valueOf(member) < valueOf(lowest)) lowest = member
  return lowest
}
