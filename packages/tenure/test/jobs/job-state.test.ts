import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  jobStateOf,
  parseJobState,
  withLostRuns,
  formatJobState,
  type JobState,
  type JobRun,
} from '../../src/jobs/job-state.ts'

const date = (text: string) => new Date(text)
const run: JobRun = {
  scheduledAt: date('2026-01-01T03:00:00Z'),
  begunAt: date('2026-01-01T03:00:00.012Z'),
  endedAt: date('2026-01-01T03:00:01.512Z'),
  durationMs: 1_500,
  by: 'node-17',
  term: 7,
  tries: 2,
  result: 'failed',
  error: 'The disk is full',
}
const note: JobState = {
  lastRunMs: Date.parse('2026-01-01T03:00:00Z'),
  nextRunMs: Date.parse('2026-01-02T03:00:00Z'),
  schedule: '0 3 * * *',
  timezone: 'Europe/Zurich',
  runs: [run],
}

describe('the job state', () => {
  test('reading a job state returns what was written', () => {
    expect(parseJobState('nightly', formatJobState(note))).toEqual(note)
    const done = { doneMs: note.lastRunMs, runs: [] }
    expect(parseJobState('migrate', formatJobState(done))).toEqual(done)
  })

  test('a job state is written as readable JSON with stable keys', () => {
    expect(formatJobState(note)).toBe(
      '{"lastRun":"2026-01-01T03:00:00.000Z","nextRun":"2026-01-02T03:00:00.000Z","schedule":"0 3 * * *",' +
        '"timezone":"Europe/Zurich","runs":[{"at":"2026-01-01T03:00:00.000Z","begun":"2026-01-01T03:00:00.012Z",' +
        '"ended":"2026-01-01T03:00:01.512Z","ms":1500,"by":"node-17","term":7,"tries":2,"result":"failed",' +
        '"error":"The disk is full"}]}',
    )
  })

  test('lastRun is read from a job state with unknown fields, or without the runs', () => {
    const lastRun = '"lastRun":"2026-01-01T03:00:00.000Z"'
    for (const text of [`{${lastRun}}`, `{"next":7,${lastRun},"runs":{}}`]) {
      expect(parseJobState('nightly', text)).toEqual({ lastRunMs: note.lastRunMs, runs: [] })
    }
  })

  test('an empty string means that the job has never run', () => {
    expect(parseJobState('nightly', '')).toEqual({ runs: [] })
  })

  test.each([
    ['words', 'my own notes'],
    ['another object', '{"cursor":17}'],
    ['a list', '[]'],
    ['a number', '7'],
    ['a last run that cannot be read', '{"lastRun":"yesterday","runs":[]}'],
    ['a last run that is not text', '{"lastRun":7}'],
    ['a last run beyond the range of dates', '{"lastRun":"+275760-09-13T00:00:00.000Z"}'],
  ])('a job state that another program wrote is rejected: %s', (_, checkpoint) => {
    expect(() => parseJobState('nightly', checkpoint)).toThrow(/"nightly" contains data.*another program/)
    expect(jobStateOf(checkpoint)).toBeUndefined()
  })

  test('unknown parts of a run are skipped when a job state is read', () => {
    const text = '{"lastRun":"2026-01-01T03:00:00.000Z","runs":[7,{"at":"x"},{"at":"2026-01-01T03:00:00Z","term":"1"}]}'
    expect(parseJobState('nightly', text).runs).toEqual([{ scheduledAt: run.scheduledAt }])
  })

  test('a job state keeps the newest ten runs', () => {
    const runs = Array.from({ length: 30 }, (_, index) => ({ scheduledAt: new Date(index * 1_000) }))
    expect(parseJobState('nightly', formatJobState({ runs })).runs).toEqual(runs.slice(0, 10))
  })

  test('a job state always fits into a checkpoint and always contains the last run', () => {
    const letter = fc.constantFrom('a', 'é', '"', '\u0000', '\u2028', '\u{1f600}', '\ud800')
    const text = fc.tuple(letter, fc.nat(2_000)).map(([each, count]) => each.repeat(count))
    const by = fc.tuple(letter, fc.nat(60)).map(([each, count]) => each.repeat(count))
    const runs = fc.array(
      fc.record({ error: text, by }).map((more): JobRun => ({ ...run, ...more })),
      { maxLength: 12 },
    )
    fc.assert(
      fc.property(runs, text, (of, schedule) => {
        const checkpoint = formatJobState({ ...note, schedule, timezone: schedule, runs: of })
        expect(Buffer.byteLength(checkpoint)).toBeLessThanOrEqual(4096)
        expect(checkpoint.isWellFormed()).toBe(true)
        const back = parseJobState('nightly', checkpoint)
        expect(back.lastRunMs).toBe(note.lastRunMs)
        expect(back.runs.length).toBeGreaterThanOrEqual(Math.min(of.length, 1))
      }),
    )
  })

  test('a run without an end is shown as lost unless its term is still active', () => {
    const open: JobRun = { scheduledAt: run.scheduledAt, begunAt: run.begunAt, by: 'node-17', term: 7 }
    expect(withLostRuns({ runs: [open, run] }, 7).runs).toEqual([open, run])
    expect(withLostRuns({ runs: [open, run] }, 8).runs).toEqual([{ ...open, result: 'lost' }, run])
    expect(withLostRuns({ runs: [open] }, undefined).runs).toMatchObject([{ result: 'lost' }])
  })
})
