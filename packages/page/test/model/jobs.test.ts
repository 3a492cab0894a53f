import { expect, test } from 'vitest'
import { failureOf, jobIn } from '../../src/model/jobs.ts'

const jobStateOf = (...runs: object[]) =>
  jobIn(JSON.stringify({ runs: runs.map((run) => ({ at: '2026-11-15T03:00:00Z', term: 3, ...run })) }))

test.each([
  ['failed', { result: 'failed' }, 'failed'],
  ['timed out', { result: 'timed-out' }, 'timed-out'],
  ['was cut off by the end of its term', { term: 2 }, 'lost'],
  ['is still running', {}, undefined],
  ['succeeded', { result: 'succeeded' }, undefined],
  ['was stopped', { result: 'stopped' }, undefined],
  ['has an unknown result', { result: '<b>' }, undefined],
])('failureOf returns how the last run of a job failed, or undefined, when that run %s', (_what, run, shown) => {
  const note = jobStateOf(run, { result: 'failed' })
  expect(note && failureOf(note, 3)).toBe(shown)
})

test('failureOf returns undefined for a job without a run', () => {
  const note = jobStateOf()
  expect(note && failureOf(note, 3)).toBeUndefined()
})
