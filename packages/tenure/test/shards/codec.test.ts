import fc from 'fast-check'
import { expect, test } from 'vitest'
import { membersLimit, shardsLimit } from '../../../internal/src/shard-assignment.ts'
import {
  epochOf,
  namedMembers,
  type Assignment,
  type OwnershipReport,
  type ShardState,
} from '../../src/shards/assignment.ts'
import { decodeAssignment, decodeReport, encodeAssignment, encodeReport } from '../../src/shards/codec.ts'
import { shardHashName } from '../../src/shards/hash.ts'

const id = fc.oneof(
  fc.uuid(),
  fc.string({ minLength: 1, maxLength: 20 }).filter((text) => text.isWellFormed()),
)
const term = fc.integer({ min: 1, max: 2 ** 37 - 1 })
const epoch = fc.tuple(term, fc.nat(65_535)).map(([of, n]) => epochOf(of, n))

/** An assignment of this many shards and members, whose tokens are all different. */
function largest(shards: number, members: number, tokens: number): Assignment {
  const newest = epochOf(2 ** 36, 60_000)
  const table = Array.from({ length: members }, (_, seat) => ({
    seat,
    attempt: `0b0e1c4e-7d4f-4a52-9c3a-${String(seat).padStart(12, '0')}`,
  }))
  const states = Array.from({ length: shards }, (_, number): ShardState => {
    const owner = table[number % members] ?? { seat: 0, attempt: '' }
    return { state: 'owned', owner, token: newest - (number % tokens) * 1_000_003 }
  })
  const settings = { shards, hash: shardHashName, leaseDurationMs: 15_000 }
  return { settings, epoch: newest, lineage: table[0]?.attempt ?? '', members: table, shards: states }
}

const anyAssignment = fc
  .record({
    newest: epoch,
    lineage: id,
    attempts: fc.uniqueArray(id, { minLength: 1, maxLength: 10 }),
    hasNames: fc.boolean(),
    drafts: fc.array(fc.record({ kind: fc.nat(3), member: fc.nat(9), age: fc.nat(2 ** 40), lineage: id }), {
      maxLength: 40,
    }),
  })
  .map(({ newest, lineage, attempts, hasNames, drafts }): Assignment => {
    const shards = drafts.map(({ kind, member, age, lineage: earlier }): ShardState => {
      const seat = member % attempts.length
      const owner = { seat, attempt: attempts[seat] ?? '' }
      const when = Math.max(0, newest - age)
      if (kind < 2) return { state: kind === 0 ? 'free' : 'unknown' }
      return kind === 2
        ? { state: 'owned', owner, token: when }
        : { state: 'revoked', owner, since: when, lineage: earlier }
    })
    const names = hasNames ? { names: drafts.map((_, number) => `Zürich ${number}`) } : {}
    const settings = { shards: shards.length, ...names, hash: shardHashName, leaseDurationMs: 15_000 }
    return { settings, epoch: newest, lineage, members: namedMembers(shards), shards }
  })

test('an assignment is the same after encoding and decoding', () => {
  fc.assert(
    fc.property(anyAssignment, (assignment) => {
      expect(decodeAssignment(encodeAssignment(assignment))).toEqual(assignment)
    }),
  )
})

test('a report is the same after encoding and decoding', () => {
  const report = fc.record({
    attempt: id,
    lineage: fc.oneof(id, fc.constant('')),
    seen: epoch,
    running: fc
      .uniqueArray(fc.nat(shardsLimit - 1), { maxLength: shardsLimit })
      .map((list) => list.toSorted((a, b) => a - b)),
    leaving: fc.boolean(),
    left: fc.boolean(),
  })
  fc.assert(
    fc.property(report, (one: OwnershipReport) => {
      expect(decodeReport(encodeReport(one))).toEqual(one)
    }),
  )
})

test('a text that is cut off, too long, or something else is not decoded', () => {
  const text = encodeAssignment(largest(8, 3, 4))
  expect(decodeAssignment('')).toBeUndefined()
  expect(decodeAssignment('{"a":1}')).toBeUndefined()
  expect(decodeReport(text)).toBeUndefined()
  const bytes = Buffer.from(text, 'base64')
  for (let length = 0; length < bytes.length; length += 1) {
    expect(decodeAssignment(bytes.subarray(0, length).toString('base64'))).toBeUndefined()
  }
  expect(decodeAssignment(Buffer.concat([bytes, Buffer.from([0])]).toString('base64'))).toBeUndefined()
})

test('a number that is too long, or that refers to nothing possible, is refused', () => {
  const bytes = Buffer.from(encodeAssignment(largest(8, 3, 4)), 'base64')
  const withShards = (...number: number[]) => Buffer.from([bytes[0] ?? 0, ...number, ...bytes.subarray(2)])
  expect(decodeAssignment(withShards(8).toString('base64'))).toBeDefined()
  // 150 bytes without any bit would make the scale infinite, and the number not a number.
  expect(decodeAssignment(withShards(...Array<number>(150).fill(128), 0).toString('base64'))).toBeUndefined()
  const beyond = { ...largest(1, 1, 1), members: [{ seat: membersLimit, attempt: 'a' }] }
  const shards = [{ state: 'owned' as const, owner: { seat: membersLimit, attempt: 'a' }, token: 1 }]
  expect(decodeAssignment(encodeAssignment({ ...beyond, shards }))).toBeUndefined()
})

test('any text is decoded or refused without an exception', () => {
  fc.assert(fc.property(fc.base64String(), (text) => void [decodeAssignment(text), decodeReport(text)]))
})

test('a group of 256 shards and 32 members fits into the smallest checkpoint of a store', () => {
  expect(encodeAssignment(largest(256, 32, 64)).length).toBeLessThanOrEqual(4_096)
})

test('the largest group fits into 32 KB even if every shard has another token', () => {
  expect(encodeAssignment(largest(shardsLimit, membersLimit, shardsLimit)).length).toBeLessThanOrEqual(32_768)
  const running = Array.from({ length: shardsLimit }, (_, shard) => shard)
  const report = { attempt: 'a', lineage: 'b', seen: epochOf(2 ** 37 - 1, 65_535), running, leaving: true, left: false }
  expect(encodeReport(report).length).toBeLessThanOrEqual(1_024)
})

test('the last epoch is a safe integer, and a higher term is refused', () => {
  expect(epochOf(2 ** 37 - 1, 65_535)).toBe(Number.MAX_SAFE_INTEGER)
  expect(() => epochOf(2 ** 37, 0)).toThrow(expect.objectContaining({ code: 'TERM_EXHAUSTED' }))
})
