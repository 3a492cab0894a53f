import { expect, test } from 'vitest'
import type { GroupAnswer, WatchEvent } from '../../src/model/answers.ts'
import {
  leftOf,
  listed,
  looked,
  noElections,
  remembered,
  told,
  unfollowed,
  type Elections,
  type Lease,
} from '../../src/model/elections.ts'
import { elected, lease, lost } from './answers.ts'

const at = (monotonicMs: number, wallMs = 1_000_000) => ({ monotonicMs, wallMs })
const group = (more: Partial<GroupAnswer> = {}): GroupAnswer => ({
  group_id: 'jobs',
  highest_term: 1,
  leader: lease('a', 1),
  candidates: 2,
  waiting: 1,
  ...more,
})
const state = (more: Partial<WatchEvent> = {}): WatchEvent => ({
  type: 'STATE',
  group_id: 'jobs',
  leader: lease('a', 1),
  highest_term: 1,
  ts_ms: 1_000_500,
  ...more,
})
const jobs = ({ byId }: Elections) => byId.get('jobs')

test('a lease runs down on the viewer’s own clock, from the moment it arrived', () => {
  const shown = jobs(listed(noElections, [group()], at(5_000)))?.leader as Lease
  expect(shown.endsAtMs).toBe(15_000)
  expect(leftOf(shown, 5_000)).toEqual({ ms: 10_000, part: 10 / 15 })
  expect(leftOf(shown, 14_000)).toEqual({ ms: 1_000, part: 1 / 15 })
  expect(leftOf(shown, 99_000)).toEqual({ ms: 0, part: 0 })
  expect(leftOf({ ...shown, endsAtMs: 1e9 }, 0).part).toBe(1)
  expect(leftOf({ ...shown, ttlMs: 0 }, 0).part).toBe(0)
})

test('a listing older than the stream does not change the leader, but updates the members', () => {
  const followed = told(listed(noElections, [group()], at(0)), state({ leader: lease('b', 2), highest_term: 2 }), at(1))
  const relisted = listed(followed, [group({ candidates: 7 })], at(2))
  expect(jobs(relisted)).toMatchObject({ leader: { node: 'b', term: 2 }, candidates: 7, waiting: 1 })
  expect(jobs(looked(relisted, group(), at(3)))).toMatchObject({ leader: { node: 'b' } })
  // Once the stream is interrupted, the listing is the newest information.
  expect(jobs(listed(unfollowed(relisted), [group()], at(4)))).toMatchObject({ leader: { node: 'a', term: 1 } })
})

test('each change is shown at once', () => {
  const start = told(listed(noElections, [group()], at(0)), state(), at(0))
  const over = told(start, lost('a', 1, 'expired', 2_000), at(10))
  expect(jobs(over)).toMatchObject({ leader: undefined, previous: { node: 'a' }, highestTerm: 1 })
  const next = told(over, elected('b', 2), at(20))
  expect(jobs(next)).toMatchObject({ leader: { node: 'b', term: 2, endsAtMs: 10_020 }, previous: undefined })
  expect(jobs(next)?.terms.map(({ node, end }) => [node, end])).toEqual([
    ['a', 'expired'],
    ['b', undefined],
  ])
})

test('a renewal extends the bar, and brings back a leader whose lease seemed to have expired', () => {
  const renewed = { ...elected('a', 1), type: 'RENEWED' as const }
  const start = told(listed(noElections, [group()], at(0)), state(), at(0))
  expect(jobs(told(start, renewed, at(4_000)))?.leader?.endsAtMs).toBe(14_000)
  const over = told(start, lost('a', 1, 'expired', 2_000), at(10))
  expect(jobs(told(over, renewed, at(20)))?.leader).toMatchObject({ node: 'a', term: 1 })
})

test('a late event of an older term does not replace the leader', () => {
  const start = told(listed(noElections, [group()], at(0)), state({ leader: lease('b', 5), highest_term: 5 }), at(0))
  for (const late of [elected('a', 4), lost('a', 4, 'expired', 4_500)]) {
    expect(jobs(told(start, late, at(1)))?.leader).toMatchObject({ node: 'b', term: 5 })
  }
  const over = told(start, lost('b', 5, 'resigned', 6_000), at(2))
  expect(jobs(told(over, elected('a', 4), at(3)))?.leader).toBeUndefined()
})

test('recorded changes only fill the timeline', () => {
  const start = told(listed(noElections, [group()], at(0)), state({ leader: lease('c', 9), highest_term: 9 }), at(0))
  const kept = remembered(start, [elected('a', 7), lost('a', 7, 'resigned', 7_500), elected('b', 8)])
  expect(jobs(kept)?.leader?.node).toBe('c')
  expect(jobs(kept)?.terms.map(({ term }) => term)).toEqual([1, 7, 8, 9])
})

test('an election that nobody may lead yet shows for how long', () => {
  const held = state({ leader: null, previous_leader: lease('a', 1), retry_after_ms: 4_000 })
  expect(jobs(told(listed(noElections, [group()], at(0)), held, at(100)))).toMatchObject({ freeAtMs: 4_100 })
})

test('the clock difference to the server affects only the times shown, never a lease', () => {
  const shown = told(listed(noElections, [group()], at(0)), state({ ts_ms: 1_060_000 }), at(0, 1_000_000))
  expect(shown.aheadMs).toBe(60_000)
  expect(jobs(shown)?.leader?.endsAtMs).toBe(10_000)
})

test('events of elections that are not shown, and of the stream itself, change nothing that is shown', () => {
  const start = listed(noElections, [group()], at(0))
  expect(told(start, { ...elected('a', 1), group_id: 'others' }, at(0)).byId).toBe(start.byId)
  expect(told(start, { type: 'GAP', ts_ms: 1 }, at(0))).toEqual(start)
})
