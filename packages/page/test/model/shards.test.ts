import { expect, test } from 'vitest'
import { namedMembers, type ShardState } from '../../../tenure/src/shards/assignment.ts'
import { encodeAssignment } from '../../../tenure/src/shards/codec.ts'
import type { MemberAnswer } from '../../src/model/answers.ts'
import {
  assignmentIn,
  countKinds,
  groupOfSeat,
  moved,
  shardsNote,
  shardsOf,
  shardText,
} from '../../src/model/shards.ts'

const [ada, bob, gone] = ['a', 'b', 'c'].map((attempt, seat) => ({ seat, attempt })) as [Seat, Seat, Seat]
interface Seat {
  readonly seat: number
  readonly attempt: string
}

function checkpointOf(shards: readonly ShardState[], names?: readonly string[]): string {
  const settings = { shards: shards.length, ...(names && { names }), hash: 'x', leaseDurationMs: 15_000 }
  return encodeAssignment({ settings, epoch: 65_540, lineage: 'l', members: namedMembers(shards), shards })
}

const mixed: readonly ShardState[] = [
  { state: 'owned', owner: ada, token: 65_536 },
  { state: 'owned', owner: bob, token: 65_537 },
  { state: 'revoked', owner: bob, since: 65_539, lineage: 'l' },
  { state: 'free' },
  { state: 'owned', owner: gone, token: 65_536 },
]

function member(node_id: string, { seat, attempt }: Seat): MemberAnswer {
  const rest = { role: 'candidate', last_heartbeat_ms: 0, metadata: {} } as const
  return { node_id, seat, instance_start_uuid: attempt, ...rest }
}

const members = [member('node-b', bob), member('node-a', ada)]

function shownOf(checkpoint: string, present: readonly MemberAnswer[] | undefined = members) {
  const assignment = assignmentIn(checkpoint)
  if (!assignment) throw new Error('the checkpoint has no assignment')
  return shardsOf(assignment, present)
}

test('the page names the owner of each shard, and shows the load of each member', () => {
  const { shards, owners, isNamed } = shownOf(checkpointOf(mixed))
  expect(shards.map(({ kind, owner }) => [kind, owner])).toEqual([
    ['owned', 'node-a'],
    ['owned', 'node-b'],
    ['revoked', 'node-b'],
    ['free', undefined],
    ['orphaned', undefined],
  ])
  expect(owners).toMatchObject([
    { node: 'node-a', owned: 1, revoked: 0 },
    { node: 'node-b', owned: 1, revoked: 1 },
  ])
  expect(isNamed).toBe(false)
})

test('no shard is orphaned while the members are not loaded', () => {
  const assignment = assignmentIn(checkpointOf(mixed))
  const shown = assignment && shardsOf(assignment, undefined)
  expect(shown?.shards.map(({ kind }) => kind)).toEqual(['owned', 'owned', 'revoked', 'free', 'owned'])
})

test('a process that took a seat again under another attempt is not shown as the owner', () => {
  const { shards } = shownOf(checkpointOf(mixed), [member('node-a', { seat: 0, attempt: 'other' })])
  expect(shards[0]).toMatchObject({ kind: 'orphaned', owner: undefined })
})

test('nodes of the same color have different marks', () => {
  const seats = Array.from({ length: 32 }, (_, seat) => ({ seat, attempt: `a${seat}` }))
  const shards = seats.map((owner): ShardState => ({ state: 'owned', owner, token: 65_536 }))
  const present = seats.map((seat) => member(`node-${seat.seat}`, seat))
  const marks = shownOf(checkpointOf(shards), present).owners.map(({ mark }) => mark)
  const ofColor = (color: string) => marks.filter((mark) => mark.startsWith(color))
  for (const color of new Set(marks.map((mark) => mark.slice(0, 2)))) {
    expect(new Set(ofColor(color)).size, color).toBe(Math.min(4, ofColor(color).length))
  }
})

test('each shard is described in a sentence, with its name if it has one', () => {
  const { shards } = shownOf(checkpointOf(mixed, ['eu', 'us', 'asia\u202e', 'africa', 'moon']))
  expect(shards.map((shard) => shardText(shard, true))).toEqual([
    'Shard eu is owned by node-a with token 65536.',
    'Shard us is owned by node-b with token 65537.',
    'Shard asia\\u{202e} is in motion: node-b must stop its work first.',
    'Shard africa is free and waits for a member.',
    'Shard moon has no owner: that member is gone, so it waits until that lease has certainly ended.',
  ])
  expect(shards.slice(3, 4).map((shard) => shardText(shard, false))).toEqual([
    'Shard africa is free and waits for a member. There is no coordinator.',
  ])
})

test('the legend counts only the kinds of shards that occur', () => {
  expect(countKinds(shownOf(checkpointOf(mixed)))).toEqual([
    { kind: 'owned', count: 2 },
    { kind: 'revoked', count: 1 },
    { kind: 'free', count: 1 },
    { kind: 'orphaned', count: 1 },
  ])
})

test('the list says how many shards an election has, and only those that are not in motion are bad', () => {
  const lease = (checkpoint: string) => {
    const times = { ttlMs: 1, endsAtMs: 1, sinceMs: 1, renewedMs: 1 }
    return { node: 'a', term: 1, metadata: {}, checkpoint, ...times }
  }
  expect(shardsNote(lease(checkpointOf(mixed.slice(0, 2))))).toEqual({ text: '2 shards', isBad: false })
  expect(shardsNote(lease(checkpointOf(mixed.slice(1, 3))))).toEqual({ text: '2 shards, 1 in motion', isBad: false })
  expect(shardsNote(lease(checkpointOf(mixed)))).toEqual({ text: '5 shards, 1 in motion, 1 free', isBad: true })
  expect(shardsNote(lease(checkpointOf([{ state: 'unknown' }])))).toEqual({ text: '1 shard, 1 unknown', isBad: true })
  for (const other of ['', '{"runs":[]}', 'AQID', '\u20ac', checkpointOf(mixed).slice(0, -4)]) {
    expect(shardsNote(lease(other)), other).toBeUndefined()
  }
  expect(shardsNote(undefined)).toBeUndefined()
})

test('the election of a seat leads to its group', () => {
  expect(groupOfSeat('chat.member.rooms.member.12')).toEqual({ group: 'chat.member.rooms', seat: 12 })
  for (const other of ['chat', 'chat.member.', 'chat.member.100', '.member.1']) {
    expect(groupOfSeat(other), other).toBeUndefined()
  }
})

test('the arrow keys move within the grid', () => {
  const grid = { columns: 4, count: 10 }
  const keys = ['ArrowLeft', 'ArrowRight', 'ArrowUp', 'ArrowDown', 'Home', 'End', 'Tab']
  expect(keys.map((key) => moved(5, key, grid))).toEqual([4, 6, 1, 9, 0, 9, undefined])
  expect([moved(0, 'ArrowUp', grid), moved(9, 'ArrowRight', grid)]).toEqual([0, 9])
})
