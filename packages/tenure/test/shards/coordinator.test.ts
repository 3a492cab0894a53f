import { expect, test } from 'vitest'
import { epochOf, type Assignment, type MemberId, type OwnershipReport } from '../../src/shards/assignment.ts'
import { balance } from '../../src/shards/balance.ts'
import {
  coordinatorStep,
  newCoordinator,
  type CoordinatorEffect,
  type CoordinatorInput,
  type CoordinatorState,
} from '../../src/shards/coordinator.ts'
import type { SeatRecord } from '../../src/shards/seats.ts'

const leaseDurationMs = 1_000
const bytesPerMember = 100
const settings = { shards: 6, hash: 'h', leaseDurationMs }
const tools = { balance, sizeOf: ({ members }: Assignment) => members.length * bytesPerMember }

function elected(assignment: Assignment | undefined, mostMembers = 100): CoordinatorState {
  const state = newCoordinator(
    {
      shards: settings,
      maxMembers: 6,
      seatLimit: 100,
      maxMoves: 16,
      retryIntervalMs: 0,
      writeIntervalMs: 0,
      keepsTerms: true,
      checkpointLimitBytes: mostMembers * bytesPerMember,
    },
    { lineage: 'c', term: 1, assignment, seats: [], nowMs: 0 },
  )
  if (typeof state === 'string') throw new Error(`the settings differ in ${state}`)
  return state
}

const seatOf = (attempt: string, more: Partial<SeatRecord> = {}): SeatRecord => ({
  attempt,
  term: 1,
  version: attempt,
  released: false,
  leaseDurationMs,
  report: reportOf(attempt),
  isMember: true,
  ...more,
})

const reportOf = (attempt: string): OwnershipReport => ({
  attempt,
  lineage: 'c',
  seen: epochOf(1, 0),
  running: [],
  leaving: false,
  left: false,
})

/** Takes one input, and confirms what it writes. */
function take(before: CoordinatorState, input: CoordinatorInput): [CoordinatorState, readonly CoordinatorEffect[]] {
  const { state, effects } = coordinatorStep(before, input, tools)
  if (!effects.some((effect) => effect.do === 'write')) return [state, effects]
  return [coordinatorStep(state, { type: 'written', nowMs: input.nowMs }, tools).state, effects]
}

const reads = (state: CoordinatorState, nowMs: number, records: readonly (SeatRecord | undefined)[]) =>
  take(state, { type: 'seats', sentAtMs: nowMs, nowMs, records })

const ownersOf = ({ confirmed }: CoordinatorState) =>
  confirmed.shards.map((shard) => (shard.state === 'owned' ? shard.owner.attempt : shard.state))

const owned = (...owners: readonly MemberId[]): Assignment => ({
  settings,
  epoch: epochOf(1, 0),
  lineage: 'b',
  members: owners,
  shards: Array.from({ length: settings.shards }, (_, shard) => ({
    state: 'owned' as const,
    owner: owners[shard % owners.length] ?? { seat: 0, attempt: '' },
    token: epochOf(1, 0),
  })),
})

test('a group in which not all members fit into the checkpoint grants its shards to those that fit', () => {
  const [state, effects] = reads(
    elected(undefined, 2),
    0,
    ['m0', 'm1', 'm2', 'm3'].map((name) => seatOf(name)),
  )
  expect(effects.map((effect) => effect.do)).toContain('refuse-members')
  expect(ownersOf(state)).toEqual(['m0', 'm1', 'm0', 'm1', 'm0', 'm1'])
})

test('members that did not fit get shards once others are over', () => {
  const assignment = owned({ seat: 0, attempt: 'm0' }, { seat: 1, attempt: 'm1' })
  const records = ['x', 'y', 'm2', 'm3'].map((name) => seatOf(name))
  let [state] = reads(elected(assignment, 2), 0, records)
  // Both seats show another attempt for one lease.
  ;[state] = reads(
    state,
    leaseDurationMs,
    records.map((one) => ({ ...one, version: `${one.version}2` })),
  )
  expect(ownersOf(state)).toEqual(['x', 'y', 'x', 'y', 'x', 'y'])
})

test('the acquires of a coordinator do not grow with every member that is over', () => {
  let nowMs = 0
  let [state] = reads(elected(undefined), nowMs, [seatOf('m0')])
  for (let count = 1; count <= 20; count += 1) {
    // The member crashes, and the next one takes its seat.
    for (const afterMs of [0, leaseDurationMs / 2, leaseDurationMs / 2]) {
      nowMs += afterMs
      const [next, effects] = reads(state, nowMs, [seatOf(`m${count - 1}`)])
      state = next
      for (const effect of effects) {
        if (effect.do !== 'acquire-seat') continue
        const { attempt } = effect.claim
        const granted = {
          ...seatOf(attempt),
          election: '',
          holder: '',
          acquiredAt: 0,
          renewedAt: 0,
          metadata: {},
          checkpoint: '',
        }
        ;[state] = take(state, { type: 'seat-answer', attempt, granted, nowMs })
        ;[state] = reads(state, nowMs, [seatOf(attempt, { released: true, isMember: false })])
      }
    }
    ;[state] = reads(state, nowMs, [seatOf(`m${count}`)])
    expect(ownersOf(state)).toEqual(Array(settings.shards).fill(`m${count}`))
  }
  expect(state.acquires.length).toBeLessThanOrEqual(1)
})

test('an answer that shows the grant of another attempt does not prove that a member is over', () => {
  let [state] = reads(elected(owned({ seat: 0, attempt: 'm0' })), 0, [seatOf('m0')])
  ;[state] = reads(state, leaseDurationMs / 2, [seatOf('m0'), seatOf('m1')])
  const [expired, effects] = reads(state, leaseDurationMs, [seatOf('m0'), seatOf('m1')])
  const [acquire] = effects.filter((effect) => effect.do === 'acquire-seat')
  const { attempt = '' } = acquire?.claim ?? {}
  const granted = {
    ...seatOf('m0'),
    election: '',
    holder: '',
    acquiredAt: 0,
    renewedAt: 0,
    metadata: {},
    checkpoint: '',
  }
  const [after] = take(expired, { type: 'seat-answer', attempt, granted, nowMs: leaseDurationMs })
  expect(attempt).not.toBe('')
  expect(ownersOf(after)).toEqual(Array(settings.shards).fill('m0'))
})

test('a member that reported left is gone, even if another process took its seat before the coordinator read it', () => {
  const left = { ...reportOf('m0'), lineage: 'b', left: true }
  const records = [seatOf('m1', { report: left })]
  const [state] = reads(elected(owned({ seat: 0, attempt: 'm0' })), 0, records)
  expect(ownersOf(state)).toEqual(Array(settings.shards).fill('free'))
})
