import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { noteOf, readNote, withLostRuns, writeNote, type JobNote, type JobRun } from '../../src/jobs/note.ts'

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
const note: JobNote = {
  lastRunMs: Date.parse('2026-01-01T03:00:00Z'),
  nextRunMs: Date.parse('2026-01-02T03:00:00Z'),
  schedule: '0 3 * * *',
  timezone: 'Europe/Zurich',
  runs: [run],
}

describe('a note', () => {
  test('is read as it was written', () => {
    expect(readNote('nightly', writeNote(note))).toEqual(note)
    const done = { doneMs: note.lastRunMs, runs: [] }
    expect(readNote('migrate', writeNote(done))).toEqual(done)
  })

  test('can be read by people, and is compared by them', () => {
    expect(writeNote(note)).toBe(
      '{"lastRun":"2026-01-01T03:00:00.000Z","nextRun":"2026-01-02T03:00:00.000Z","schedule":"0 3 * * *",' +
        '"timezone":"Europe/Zurich","runs":[{"at":"2026-01-01T03:00:00.000Z","begun":"2026-01-01T03:00:00.012Z",' +
        '"ended":"2026-01-01T03:00:01.512Z","ms":1500,"by":"node-17","term":7,"tries":2,"result":"failed",' +
        '"error":"The disk is full"}]}',
    )
  })

  test('of an older command is read, and an older command reads its last run', () => {
    const older = '{"lastRun":"2026-01-01T03:00:00.000Z"}'
    expect(readNote('nightly', older)).toEqual({ lastRunMs: note.lastRunMs, runs: [] })
    // All that older commands look at.
    expect((JSON.parse(writeNote(note)) as { lastRun: string }).lastRun).toBe('2026-01-01T03:00:00.000Z')
  })

  test('that is empty says that the job was never run', () => {
    expect(readNote('nightly', '')).toEqual({ runs: [] })
  })

  test.each([
    ['words', 'my own notes'],
    ['another object', '{"cursor":17}'],
    ['a list', '[]'],
    ['a number', '7'],
    ['a last run that cannot be read', '{"lastRun":"yesterday","runs":[]}'],
    ['a last run that is not text', '{"lastRun":7}'],
    ['a last run that no clock shows', '{"lastRun":"+275760-09-13T00:00:00.000Z"}'],
  ])('of another program is refused: %s', (_, carry) => {
    expect(() => readNote('nightly', carry)).toThrow(/"nightly" contains data.*another program/)
    expect(noteOf(carry)).toBeUndefined()
  })

  test('leaves out what it does not understand of a run', () => {
    const text = '{"lastRun":"2026-01-01T03:00:00.000Z","runs":[7,{"at":"x"},{"at":"2026-01-01T03:00:00Z","term":"1"}]}'
    expect(readNote('nightly', text).runs).toEqual([{ scheduledAt: run.scheduledAt }])
  })

  test('keeps the newest ten runs', () => {
    const runs = Array.from({ length: 30 }, (_, index) => ({ scheduledAt: new Date(index * 1_000) }))
    expect(readNote('nightly', writeNote({ runs })).runs).toEqual(runs.slice(0, 10))
  })

  test('is never longer than a carry may be, and always says what was run last', () => {
    const letter = fc.constantFrom('a', 'é', '"', '\u0000', '\u2028', '\u{1f600}', '\ud800')
    const text = fc.tuple(letter, fc.nat(2_000)).map(([each, count]) => each.repeat(count))
    const by = fc.tuple(letter, fc.nat(60)).map(([each, count]) => each.repeat(count))
    const runs = fc.array(
      fc.record({ error: text, by }).map((more): JobRun => ({ ...run, ...more })),
      { maxLength: 12 },
    )
    fc.assert(
      fc.property(runs, text, (of, schedule) => {
        const carry = writeNote({ ...note, schedule, timezone: schedule, runs: of })
        expect(Buffer.byteLength(carry)).toBeLessThanOrEqual(4096)
        expect(carry.isWellFormed()).toBe(true)
        const back = readNote('nightly', carry)
        expect(back.lastRunMs).toBe(note.lastRunMs)
        expect(back.runs.length).toBeGreaterThanOrEqual(Math.min(of.length, 1))
      }),
    )
  })

  test('shows a run without an end as lost, unless the term that runs it goes on', () => {
    const open: JobRun = { scheduledAt: run.scheduledAt, begunAt: run.begunAt, by: 'node-17', term: 7 }
    expect(withLostRuns({ runs: [open, run] }, 7).runs).toEqual([open, run])
    expect(withLostRuns({ runs: [open, run] }, 8).runs).toEqual([{ ...open, result: 'lost' }, run])
    expect(withLostRuns({ runs: [open] }, undefined).runs).toMatchObject([{ result: 'lost' }])
  })
})
