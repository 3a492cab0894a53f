import { expect, test } from 'vitest'
import type { LeaseRecord } from '../../src/engine/lease-store.ts'
import type { Member } from '../../src/engine/members/members.ts'
import { namedMembers, type ShardState } from '../../src/shards/assignment.ts'
import { encodeAssignment } from '../../src/shards/codec.ts'
import { shardHashName } from '../../src/shards/hash.ts'
import { overviewOf } from '../../src/shards/overview.ts'

const here = { seat: 0, attempt: 'a1' }
const restarted = { seat: 1, attempt: 'b1' }

const shards: readonly ShardState[] = [
  { state: 'owned', owner: here, token: 65_537 },
  { state: 'revoked', owner: here, since: 65_538, lineage: 'c1' },
  { state: 'owned', owner: restarted, token: 65_536 },
  { state: 'free' },
]

function groupRecord(part: Partial<LeaseRecord> = {}): LeaseRecord {
  const settings = { shards: 4, names: ['eu', 'us', 'asia', 'africa'], hash: shardHashName, leaseDurationMs: 15_000 }
  const assignment = { settings, epoch: 65_538, lineage: 'c1', members: namedMembers(shards), shards }
  return {
    election: 'tenants',
    holder: 'node-a',
    attempt: 'c1',
    term: 1,
    leaseDurationMs: 15_000,
    acquiredAt: 0,
    renewedAt: 0,
    released: false,
    metadata: {},
    checkpoint: encodeAssignment(assignment),
    version: '1',
    ...part,
  }
}

function member(seat: number, attempt: string, identity: string): Member {
  const known = {
    metadata: {},
    generation: undefined,
    eligible: true,
    leads: false,
    live: true,
    lastSeenMs: 0,
  } as const
  return { seat, attempt, identity, ...known }
}

test('an overview names the owner of each shard and counts the shards of each member', () => {
  const overview = overviewOf(groupRecord(), [member(0, 'a1', 'node-a'), member(1, 'b1', 'node-b')])
  expect(overview).toMatchObject({ coordinator: 'node-a', epoch: 65_538, leaseDurationMs: 15_000 })
  expect(overview?.shards).toEqual([
    { shard: 0, name: 'eu', state: 'owned', owner: 'node-a', token: 65_537 },
    { shard: 1, name: 'us', state: 'revoked', owner: 'node-a', token: undefined },
    { shard: 2, name: 'asia', state: 'owned', owner: 'node-b', token: 65_536 },
    { shard: 3, name: 'africa', state: 'free', owner: undefined, token: undefined },
  ])
  expect(overview?.members).toMatchObject([
    { identity: 'node-a', owned: 1, revoked: 1 },
    { identity: 'node-b', owned: 1, revoked: 0 },
  ])
})

test('an overview does not name a process that took its seat again under another attempt as the owner', () => {
  const overview = overviewOf(groupRecord(), [member(1, 'b2', 'node-b')])
  expect(overview?.shards[2]).toMatchObject({ state: 'owned', owner: undefined })
  expect(overview?.members).toMatchObject([{ identity: 'node-b', owned: 0 }])
})

test('an overview has no coordinator when the record of the group is released', () => {
  expect(overviewOf(groupRecord({ released: true }), [])?.coordinator).toBeUndefined()
})

test('there is no overview of an election that has no assignment', () => {
  expect(overviewOf(undefined, [])).toBeUndefined()
  expect(overviewOf(groupRecord({ checkpoint: 'last run 2026-11-15' }), [])).toBeUndefined()
})
