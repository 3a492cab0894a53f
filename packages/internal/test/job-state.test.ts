import { expect, test } from 'vitest'
import { decodeJob } from '../src/job-state.ts'

const at = '2026-11-15T03:00:00.000Z'
const atMs = Date.UTC(2026, 10, 15, 3)

test('decodeJob reads a state that has only lastRun', () => {
  expect(decodeJob(JSON.stringify({ lastRun: at }))).toMatchObject({ lastRunMs: atMs, runs: [] })
})

test('decodeJob drops runs and fields that it cannot read, and keeps the rest', () => {
  const runs = [{ at, ms: -1, by: 7, term: '3', result: 'postponed' }, 7, null, {}, { at: 'soon' }]
  const job = decodeJob(JSON.stringify({ done: at, nextRun: 5, schedule: ['daily'], runs }))
  expect(job).toMatchObject({ doneMs: atMs, nextRunMs: undefined, schedule: undefined, lastRunMs: undefined })
  expect(job?.runs).toHaveLength(1)
  expect(job?.runs[0]).toMatchObject({
    atMs,
    durationMs: undefined,
    by: undefined,
    term: undefined,
    result: 'postponed',
  })
})

test.each([
  ['an empty checkpoint', ''],
  ['text that is not JSON', 'page 7'],
  ['JSON that is not an object', '[]'],
  ['an object without any field of a job', '{"a":{"runs":[]}}'],
  ['a list of runs with a lastRun that is not a time', '{"lastRun":"soon","runs":[]}'],
  ['a finished job with a lastRun after the year 9999', `{"lastRun":"+010000-01-01T00:00:00.000Z","done":"${at}"}`],
])('decodeJob returns undefined for %s', (_, checkpoint) => {
  expect(decodeJob(checkpoint)).toBeUndefined()
})
