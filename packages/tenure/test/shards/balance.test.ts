import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { ShardState } from '../../src/shards/assignment.ts'
import { balance, type BalancedMember } from '../../src/shards/balance.ts'

const memberOn = (seat: number, more: Partial<BalancedMember> = {}): BalancedMember => ({
  member: { seat, attempt: `a${seat}` },
  isLeaving: false,
  isEstablished: true,
  ...more,
})

interface Settled {
  readonly shards: readonly ShardState[]
  /** The shards that were taken from a member that lives on. */
  readonly revoked: number
}

/** Balances until nothing changes. Each revoked shard becomes free before the next round, and those of the dead do. */
function settle(first: readonly ShardState[], living: readonly BalancedMember[], maxMoves: number): Settled {
  let shards = first
  let revoked = 0
  for (let round = 0; round < 2_000; round += 1) {
    const isAlive = (shard: ShardState) =>
      'owner' in shard && living.some(({ member }) => member.attempt === shard.owner.attempt)
    const freed = shards.map((shard): ShardState =>
      shard.state === 'owned' && isAlive(shard) ? shard : { state: 'free' },
    )
    const { grants, revocations } = balance(freed, living, maxMoves)
    expect(revocations.length).toBeLessThanOrEqual(maxMoves)
    revoked += revocations.length
    const next = freed.map((shard, number): ShardState => {
      const owner = grants.get(number)
      if (owner) {
        expect(shard.state).toBe('free')
        return { state: 'owned', owner, token: round }
      }
      if (shard.state === 'owned' && revocations.includes(number)) {
        return { state: 'revoked', owner: shard.owner, since: round, lineage: '' }
      }
      return shard
    })
    if (grants.size === 0 && revocations.length === 0) return { shards: next, revoked }
    shards = next
  }
  throw new Error('balancing never ends')
}

function loadsOf(shards: readonly ShardState[], living: readonly BalancedMember[]): number[] {
  return living.map(
    ({ member }) => shards.filter((shard) => shard.state === 'owned' && shard.owner.attempt === member.attempt).length,
  )
}

const free = (count: number): ShardState[] => Array.from({ length: count }, () => ({ state: 'free' }))
const sizes = {
  count: fc.integer({ min: 1, max: 60 }),
  members: fc.integer({ min: 1, max: 12 }),
  maxMoves: fc.integer({ min: 1, max: 8 }),
}

test('loads differ by at most one once nothing changes', () => {
  fc.assert(
    fc.property(
      sizes.count,
      fc.array(fc.nat(11), { minLength: 60, maxLength: 60 }),
      sizes.members,
      sizes.maxMoves,
      (count, owners, members, maxMoves) => {
        const living = Array.from({ length: members }, (_, seat) => memberOn(seat))
        const first = free(count).map((shard, number): ShardState => {
          const seat = owners[number] ?? 0
          return seat < members ? { state: 'owned', owner: { seat, attempt: `a${seat}` }, token: 0 } : shard
        })
        const loads = loadsOf(settle(first, living, maxMoves).shards, living)
        expect(loads.reduce((sum, load) => sum + load, 0)).toBe(count)
        expect(Math.max(...loads) - Math.min(...loads)).toBeLessThanOrEqual(1)
      },
    ),
  )
})

test('a member that joins or leaves moves at most its fair share of the shards', () => {
  fc.assert(
    fc.property(sizes.count, fc.integer({ min: 2, max: 12 }), sizes.maxMoves, (count, members, maxMoves) => {
      const all = Array.from({ length: members }, (_, seat) => memberOn(seat))
      const share = Math.ceil(count / members)
      const before = settle(free(count), all.slice(1), maxMoves).shards
      const joined = settle(before, all, maxMoves)
      expect(joined.revoked).toBeLessThanOrEqual(share)
      const changed = (one: readonly ShardState[], other: readonly ShardState[]) =>
        one.filter((shard, number) => JSON.stringify(shard) !== JSON.stringify(other[number])).length
      expect(changed(before, joined.shards)).toBeLessThanOrEqual(share)
      const left = settle(joined.shards, all.slice(0, -1), maxMoves)
      expect(left.revoked).toBe(0)
      expect(changed(joined.shards, left.shards)).toBeLessThanOrEqual(share)
    }),
  )
})

test('a balanced group stays as it is', () => {
  const living = [memberOn(0), memberOn(1), memberOn(2)]
  const { shards } = settle(free(16), living, 4)
  expect(balance(shards, living, 4)).toEqual({ grants: new Map(), revocations: [] })
})

test('a leaving member gets nothing and hands everything over', () => {
  const living = [memberOn(0), memberOn(1, { isLeaving: true }), memberOn(2)]
  const { shards } = settle(settle(free(9), [memberOn(0), memberOn(1), memberOn(2)], 2).shards, living, 2)
  expect(loadsOf(shards, living)).toEqual([5, 0, 4])
})

test('the last members hand their shards over even if nobody can take them', () => {
  const owned: ShardState[] = [{ state: 'owned', owner: { seat: 0, attempt: 'a0' }, token: 1 }]
  expect(balance(owned, [memberOn(0, { isLeaving: true })], 1)).toEqual({ grants: new Map(), revocations: [0] })
})

test('no shard is taken away for a member that has not been present for one lease', () => {
  const before = settle(free(8), [memberOn(0)], 8).shards
  const young = [memberOn(0), memberOn(1, { isEstablished: false })]
  expect(balance(before, young, 8).revocations).toEqual([])
  expect(balance(before, [memberOn(0), memberOn(1)], 8).revocations).toHaveLength(4)
  expect(balance([...before.slice(0, 7), { state: 'free' }], young, 8).grants).toEqual(
    new Map([[7, { seat: 1, attempt: 'a1' }]]),
  )
})

test('at most maxMoves shards are in motion at once', () => {
  const before = settle(free(8), [memberOn(0)], 8).shards
  const inMotion: ShardState = { state: 'revoked', owner: { seat: 0, attempt: 'a0' }, since: 1, lineage: '' }
  expect(balance([inMotion, ...before.slice(1)], [memberOn(0), memberOn(1)], 2).revocations).toHaveLength(1)
})
