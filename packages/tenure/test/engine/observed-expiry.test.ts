import { expect, test } from 'vitest'
import { absentVersion, type LeaseRecord } from '../../src/index.ts'
import {
  expiredVersionOf,
  leftMs,
  nothingObserved,
  observeRecord,
  pastOf,
  type ObservedVersions,
  type Showing,
} from '../../src/engine/observed-expiry.ts'

const leaseMs = 10_000

function record(version: string, over: Partial<LeaseRecord> = {}): LeaseRecord {
  return {
    election: 'e',
    holder: 'h',
    attempt: 'a',
    term: 1,
    leaseDurationMs: leaseMs,
    acquiredAt: 0,
    renewedAt: 0,
    released: false,
    metadata: {},
    checkpoint: '',
    version,
    ...over,
  }
}

/** Adds several observations, each at its own time. */
function after(...showings: readonly (Partial<Showing> & { readonly nowMs: number })[]): ObservedVersions {
  return showings.reduce<ObservedVersions>(
    (known, showing) => observeRecord(known, { record: undefined, watched: false, ownDurationMs: leaseMs, ...showing }),
    nothingObserved,
  )
}

test('the expiry of a version counts from its first observation, no matter how often an answer shows it', () => {
  const known = after({ record: record('v1'), nowMs: 1_000 }, { record: record('v1'), nowMs: 9_000 })
  expect(expiredVersionOf(known, 10_999)).toBeUndefined()
  expect(leftMs(known, 10_999)).toBe(1)
  expect(expiredVersionOf(known, 11_000)).toBe('v1')
})

test('a version that an answer shows again after a newer one keeps the time of its first observation', () => {
  const known = after(
    { record: record('v1'), nowMs: 0 },
    { record: record('v2'), nowMs: 4_000 },
    { record: record('v1'), nowMs: 6_000 },
  )
  expect(expiredVersionOf(known, 10_000)).toBe('v1')
})

test('a new version restarts the wait for expiry', () => {
  const known = after({ record: record('v1'), nowMs: 0 }, { record: record('v2'), nowMs: 9_999 })
  expect(expiredVersionOf(known, 19_998)).toBeUndefined()
  expect(expiredVersionOf(known, 19_999)).toBe('v2')
})

test('a replayed event and an event with a lower term change nothing', () => {
  const known = after({ record: record('v1', { term: 2 }), nowMs: 0 }, { record: record('v2', { term: 3 }), nowMs: 1 })
  for (const [version, term, why] of [
    ['v1', 2, 'replayed'],
    ['v2', 3, 'replayed'],
    ['v0', 2, 'lower-term'],
  ] as const) {
    const replayed = record(version, { term })
    expect(pastOf(known, replayed)).toBe(why)
    expect(observeRecord(known, { record: replayed, watched: true, nowMs: 5, ownDurationMs: leaseMs })).toBe(known)
  }
})

test('an event that shows the same version as released is not a replay', () => {
  const known = after(
    { record: record('v1'), nowMs: 0 },
    { record: record('v1', { released: true }), watched: true, nowMs: 1_000 },
  )
  expect(leftMs(known, 1_000)).toBe(0)
  // Released, so there is nothing to take over.
  expect(expiredVersionOf(known, 20_000)).toBeUndefined()
})

test('the version of the last answer is recognized after any number of events', () => {
  const events = Array.from({ length: 40 }, (_, index) => ({
    record: record(`event ${index}`),
    watched: true,
    nowMs: 1_000 + index,
  }))
  const known = after({ record: record('answered'), nowMs: 0 }, ...events)
  expect(pastOf(known, record('answered'))).toBe('replayed')
  expect(pastOf(known, record('event 32'))).toBe('replayed')
  expect(pastOf(known, record('event 31')), 'only 8 versions are remembered').toBeUndefined()
})

test('a record without a valid duration counts as held for the candidate’s own or the last known lease duration, whichever is longer', () => {
  for (const leaseDurationMs of [0, -1, Infinity, Number.NaN]) {
    const first = after({ record: record('v1', { leaseDurationMs }), nowMs: 0, ownDurationMs: 7_000 })
    expect(leftMs(first, 0), String(leaseDurationMs)).toBe(7_000)
    const later = after(
      { record: record('v1', { leaseDurationMs: 12_000 }), nowMs: 0 },
      { record: record('v2', { leaseDurationMs }), nowMs: 0, ownDurationMs: 7_000 },
    )
    expect(leftMs(later, 0), String(leaseDurationMs)).toBe(12_000)
  }
})

test('a missing record counts as held from the moment it was found missing', () => {
  const gone = after(
    { record: record('v1', { leaseDurationMs: 12_000 }), nowMs: 0 },
    { nowMs: 5_000 },
    { nowMs: 9_000 },
  )
  expect(expiredVersionOf(gone, 16_999)).toBeUndefined()
  expect(expiredVersionOf(gone, 17_000)).toBe(absentVersion)
})

test('a missing record counts as held for as long as the store says', () => {
  expect(leftMs(after({ record: record('v1'), nowMs: 0 }, { nowMs: 0, absentForMs: 300 }), 0)).toBe(300)
})

test('the wait for a missing record restarts after each record, and after each term that was granted unseen', () => {
  const again = after({ nowMs: 0 }, { record: record('v1'), nowMs: 1 }, { nowMs: 8_000 })
  expect(expiredVersionOf(again, 10_000)).toBeUndefined()
  const unseen = after({ nowMs: 0, highestTerm: 4 }, { nowMs: 8_000, highestTerm: 5 })
  expect(expiredVersionOf(unseen, 10_000)).toBeUndefined()
  expect(expiredVersionOf(unseen, 18_000)).toBe(absentVersion)
  expect(unseen.highestTerm).toBe(5)
})

test('nothing is known to have expired before the first observation', () => {
  expect(leftMs(nothingObserved, 0)).toBeUndefined()
  expect(expiredVersionOf(nothingObserved, Infinity)).toBeUndefined()
})
