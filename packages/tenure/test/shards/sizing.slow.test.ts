import { expect, test } from 'vitest'
import { leaseMs, type ShardFleet, type ShardProcess } from './shard-fleet.ts'
import { callsPerLease, settledFleet, sizingPage } from './sizing-page.ts'

/** The row of the page that begins with this text. */
function rowOf(text: string): string {
  const row = sizingPage.split('\n').find((line) => line.startsWith(`| ${text} |`))
  return row ?? expect.unreachable(`the page has no row "${text}"`)
}

/** Two numbers with "to" between them, in milliseconds. */
function rangeOf(text: string): [leastMs: number, mostMs: number] {
  const [, least, most] = /(\d+) to (\d+) s/.exec(rowOf(text)) ?? []
  return [Number(least) * 1_000, Number(most) * 1_000]
}

/** The writes of a change beyond those of a fleet at rest, until one lease after it has settled. */
async function writesOf(fleet: ShardFleet, change: () => Promise<void>): Promise<number> {
  const { writes: rate } = await callsPerLease(fleet, 2)
  const startedMs = fleet.clock.monotonicMs()
  fleet.writes.count = 0
  await change()
  await fleet.until(() => fleet.isSettled(), 10 * leaseMs)
  await fleet.advance(leaseMs)
  return fleet.writes.count - ((fleet.clock.monotonicMs() - startedMs) / leaseMs) * rate
}

test('the writes of a move in docs/how-to/shards-sizing.md are not exceeded', { timeout: 180_000 }, async () => {
  const fleet = await settledFleet('swap', 4, 256)
  const most = (text: string) => Number(/at most (\d+)/.exec(rowOf(text))?.[1])
  let late: ShardProcess | undefined
  const joined = await writesOf(fleet, async () => void (late = fleet.join('late')))
  expect(joined).toBeGreaterThan(10)
  expect(joined).toBeLessThanOrEqual(most('a process joins'))
  let leaveMs = 0
  const left = await writesOf(fleet, async () => {
    const sinceMs = fleet.clock.monotonicMs()
    await fleet.leave(late ?? expect.unreachable())
    leaveMs = fleet.clock.monotonicMs() - sinceMs
  })
  expect(left).toBeLessThanOrEqual(most('a process leaves with `stop()`'))
  const [, mostMs] = rangeOf('a process leaves with `stop()`')
  expect(leaveMs).toBeLessThanOrEqual(mostMs)
})

test(
  'the times without an owner in docs/how-to/shards-sizing.md are those of a fleet',
  { timeout: 180_000 },
  async () => {
    const fleet = await settledFleet('swap', 4, 64)
    for (const [text, coordinates] of [
      ['a process that is not the coordinator crashes', false],
      ['the coordinator crashes', true],
    ] as const) {
      const victim = fleet.live.find(({ shards }) => shards.status().isCoordinator === coordinates)
      fleet.crash(victim ?? expect.unreachable())
      const [leastMs, mostMs] = rangeOf(text)
      const tookMs = await fleet.until(() => fleet.isSettled(), 10 * leaseMs)
      expect(tookMs, text).toBeGreaterThanOrEqual(leastMs)
      expect(tookMs, text).toBeLessThanOrEqual(mostMs)
      await fleet.advance(2 * leaseMs)
    }
  },
)
