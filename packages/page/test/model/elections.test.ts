import { expect, test } from 'vitest'
import type { GroupAnswer, PageEvent } from '../../src/model/answers.ts'
import {
  remainingOf,
  withListing,
  withGroup,
  noElections,
  withRecordedChanges,
  withEvent,
  markInterrupted,
  type ElectionList,
  type ShownLease,
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
const state = (more: Partial<PageEvent> = {}): PageEvent => ({
  type: 'STATE',
  group_id: 'jobs',
  leader: lease('a', 1),
  highest_term: 1,
  ts_ms: 1_000_500,
  ...more,
})
const jobs = ({ byId }: ElectionList) => byId.get('jobs')

test('the remaining time of a lease is counted on the viewer’s clock from the moment the lease arrived', () => {
  const shown = jobs(withListing(noElections, [group()], at(5_000)))?.leader as ShownLease
  expect(shown.endsAtMs).toBe(15_000)
  expect(remainingOf(shown, 5_000)).toEqual({ ms: 10_000, part: 10 / 15 })
  expect(remainingOf(shown, 14_000)).toEqual({ ms: 1_000, part: 1 / 15 })
  expect(remainingOf(shown, 99_000)).toEqual({ ms: 0, part: 0 })
  expect(remainingOf({ ...shown, endsAtMs: 1e9 }, 0).part).toBe(1)
  expect(remainingOf({ ...shown, ttlMs: 0 }, 0).part).toBe(0)
})

test('a listing that is older than the stream updates the number of candidates but not the leader', () => {
  const followed = withEvent(
    withListing(noElections, [group()], at(0)),
    state({ leader: lease('b', 2), highest_term: 2 }),
    at(1),
  )
  const relisted = withListing(followed, [group({ candidates: 7 })], at(2))
  expect(jobs(relisted)).toMatchObject({ leader: { node: 'b', term: 2 }, candidates: 7, waiting: 1 })
  expect(jobs(withGroup(relisted, group(), at(3)))).toMatchObject({ leader: { node: 'b' } })
  // Once the stream is interrupted, the listing is the newest information.
  expect(jobs(withListing(markInterrupted(relisted), [group()], at(4)))).toMatchObject({
    leader: { node: 'a', term: 1 },
  })
})

test('an event updates the leader and the list of terms of its election at once', () => {
  const start = withEvent(withListing(noElections, [group()], at(0)), state(), at(0))
  const over = withEvent(start, lost('a', 1, 'expired', 2_000), at(10))
  expect(jobs(over)).toMatchObject({ leader: undefined, previous: { node: 'a' }, highestTerm: 1 })
  const next = withEvent(over, elected('b', 2), at(20))
  expect(jobs(next)).toMatchObject({ leader: { node: 'b', term: 2, endsAtMs: 10_020 }, previous: undefined })
  expect(jobs(next)?.terms.map(({ node, end }) => [node, end])).toEqual([
    ['a', 'expired'],
    ['b', undefined],
  ])
})

test('a renewal extends the shown lease, and a leader whose lease seemed to have expired is shown again', () => {
  const renewed = { ...elected('a', 1), type: 'RENEWED' as const }
  const start = withEvent(withListing(noElections, [group()], at(0)), state(), at(0))
  expect(jobs(withEvent(start, renewed, at(4_000)))?.leader?.endsAtMs).toBe(14_000)
  const over = withEvent(start, lost('a', 1, 'expired', 2_000), at(10))
  expect(jobs(withEvent(over, renewed, at(20)))?.leader).toMatchObject({ node: 'a', term: 1 })
})

test('a late event of an older term does not replace the leader', () => {
  const start = withEvent(
    withListing(noElections, [group()], at(0)),
    state({ leader: lease('b', 5), highest_term: 5 }),
    at(0),
  )
  for (const late of [elected('a', 4), lost('a', 4, 'expired', 4_500)]) {
    expect(jobs(withEvent(start, late, at(1)))?.leader).toMatchObject({ node: 'b', term: 5 })
  }
  const over = withEvent(start, lost('b', 5, 'resigned', 6_000), at(2))
  expect(jobs(withEvent(over, elected('a', 4), at(3)))?.leader).toBeUndefined()
})

test('recorded changes are added to the timeline and do not change the current leader', () => {
  const start = withEvent(
    withListing(noElections, [group()], at(0)),
    state({ leader: lease('c', 9), highest_term: 9 }),
    at(0),
  )
  const kept = withRecordedChanges(start, [elected('a', 7), lost('a', 7, 'resigned', 7_500), elected('b', 8)])
  expect(jobs(kept)?.leader?.node).toBe('c')
  expect(jobs(kept)?.terms.map(({ term }) => term)).toEqual([1, 7, 8, 9])
})

test('an election without a leader shows when the next lease may be granted', () => {
  const held = state({ leader: null, previous_leader: lease('a', 1), retry_after_ms: 4_000 })
  expect(jobs(withEvent(withListing(noElections, [group()], at(0)), held, at(100)))).toMatchObject({ freeAtMs: 4_100 })
})

test('the difference to the server’s clock is recorded and does not change when a lease ends', () => {
  const shown = withEvent(withListing(noElections, [group()], at(0)), state({ ts_ms: 1_060_000 }), at(0, 1_000_000))
  expect(shown.aheadMs).toBe(60_000)
  expect(jobs(shown)?.leader?.endsAtMs).toBe(10_000)
})

test('a GAP event, or an event of an election that is not shown, does not change the shown elections', () => {
  const start = withListing(noElections, [group()], at(0))
  expect(withEvent(start, { ...elected('a', 1), group_id: 'others' }, at(0)).byId).toBe(start.byId)
  expect(withEvent(start, { type: 'GAP', ts_ms: 1 }, at(0))).toEqual(start)
})
