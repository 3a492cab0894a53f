import { expect, test } from 'vitest'
import { epochOf, namedMembers, type ShardState } from '../../src/shards/assignment.ts'
import { encodeAssignment, encodeReport } from '../../src/shards/codec.ts'
import { callsPerLease, rowsBelow, settledFleet, sizingPage } from './sizing-page.ts'
import { leaseMs } from './shard-fleet.ts'

const id = (number: number) => `00000000-0000-4000-8000-${String(number).padStart(12, '0')}`

/** The longest text of an assignment in which every shard is owned. */
function bytesOf(shards: number, processes: number, tokenOf: (shard: number) => number, names?: string[]): number {
  const states = Array.from({ length: shards }, (_, shard): ShardState => {
    const seat = shard % processes
    return { state: 'owned', owner: { seat, attempt: id(seat) }, token: tokenOf(shard) }
  })
  const settings = { shards, hash: 'fnv1a32-fmix', leaseDurationMs: leaseMs, names }
  const members = namedMembers(states)
  return Buffer.byteLength(
    encodeAssignment({ settings, epoch: epochOf(1_000, 9), lineage: id(999), members, shards: states }),
  )
}

const fresh = (shard: number) => epochOf(1_000, shard % 8)
const aged = (shard: number) => epochOf(1_000 - Math.floor(shard / 8), (7 * shard) % 60_000)

test('the sizes of assignments in docs/how-to/shards-sizing.md are those of the code', () => {
  const rows = rowsBelow('The size of the assignment')
  expect(rows).toHaveLength(5)
  for (const [shards = 0, processes = 0, ...sizes] of rows) {
    expect(sizes, `${shards} shards and ${processes} processes`).toEqual([
      bytesOf(shards, processes, fresh),
      bytesOf(shards, processes, aged),
    ])
  }
})

test('the limits of assignments in docs/how-to/shards-sizing.md hold', () => {
  expect(bytesOf(512, 32, aged)).toBeLessThan(4_096)
  expect(bytesOf(256, 100, aged)).toBeLessThan(4_096)
  const names = (count: number, length: number) =>
    Array.from({ length: count }, (_, name) => `${name}`.padEnd(length, '-'))
  expect(bytesOf(512, 100, aged, names(512, 38))).toBeLessThanOrEqual(32_768)
  expect(bytesOf(512, 100, aged, names(512, 41))).toBeGreaterThan(32_768)
  expect(bytesOf(100, 8, aged, names(100, 20)) - bytesOf(100, 8, aged)).toBeCloseTo(2_800, -2)
  const report = { attempt: id(1), lineage: id(2), seen: epochOf(1_000, 9), leaving: false, left: false }
  const running = Array.from({ length: 512 }, (_, shard) => shard)
  expect(sizingPage).toContain(`at most ${Buffer.byteLength(encodeReport({ ...report, running }))} bytes`)
})

test('the calls per lease in docs/how-to/shards-sizing.md are those of a fleet', { timeout: 60_000 }, async () => {
  const rows = rowsBelow('Calls to the store')
  expect(rows).toHaveLength(3)
  for (const [processes = 0, writes, watched = 0, polled = 0] of rows) {
    for (const [kind, reads] of [
      ['memory', watched],
      ['swap', polled],
    ] as const) {
      const calls = await callsPerLease(await settledFleet(kind, processes, 16), 4)
      expect(calls.writes, `writes of ${processes} processes on ${kind}`).toBe(writes)
      // Jitter moves a read into or out of the counted leases.
      expect(Math.abs(calls.reads - reads), `reads of ${processes} processes on ${kind}`).toBeLessThan(0.04 * reads + 1)
    }
  }
})
