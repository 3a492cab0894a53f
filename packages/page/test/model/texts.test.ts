import { expect, test } from 'vitest'
import { EventLines } from '../../src/model/event-lines.ts'
import { finishedIn, jobIn } from '../../src/model/jobs.ts'
import { colorOf } from '../../src/model/palette.ts'
import { ago, duration, leftText, termText, visible } from '../../src/model/text.ts'

test('EventLines assembles events from arbitrary chunks', () => {
  const text = 'retry: 2000\n\nid: x\ndata: {"a":1}\n\n: still here\nid: y\n\ndata: one\ndata: two\r\n\r\ndata: rest'
  for (const size of [1, 2, 7, 1_000]) {
    const lines = new EventLines()
    const pieces = Array.from({ length: Math.ceil(text.length / size) }, (_, at) =>
      text.slice(at * size, (at + 1) * size),
    )
    expect(pieces.flatMap((piece) => lines.take(piece))).toEqual(['{"a":1}', 'one\ntwo'])
  }
})

test('visible writes out the invisible characters of a name', () => {
  expect(visible('a\u202eb')).toBe('a\\u{202e}b')
  expect(visible('zero\u200bwidth\u2066x\u2069\ufeff')).toBe('zero\\u{200b}width\\u{2066}x\\u{2069}\\u{feff}')
  expect(visible('line\nend\u2028')).toBe('line\\u{a}end\\u{2028}')
  expect(visible('\u{e0041}')).toBe('\\u{e0041}')
  expect(visible(`a${'\u0301'.repeat(50)}`)).toBe('a\u0301\u0301')
  for (const plain of ['node-01', 'Zürich', '東京', 'שלום', '<b>&amp;', '👩‍🚀'.replace('\u200d', '')]) {
    expect(visible(plain)).toBe(plain)
  }
})

test('durations are shown in at most two units and are never negative', () => {
  expect([0, 40, 999, 1_500, 9_960, 61_000, 3_600_000, 90_061_000].map(duration)).toEqual([
    '0 ms',
    '40 ms',
    '1.0 s',
    '1.5 s',
    '10 s',
    '1 min 1 s',
    '1 h',
    '1 d 1 h',
  ])
  expect(duration(-5)).toBe('0 ms')
  // Remaining time is rounded down, so that the page never shows more time than is left.
  expect([990, 9_999, 10_999, 60_000].map(leftText)).toEqual(['0.9 s', '9.9 s', '10 s', '1 min'])
  expect([-5_000, 1_000, 4_400, 75_000].map(ago)).toEqual(['just now', 'just now', '4 s ago', '1 min 15 s ago'])
})

test('termText says who led, for how long, and why the term ended', () => {
  const clock = (ms: number) => `[${ms}]`
  const led = { term: 4, node: 'a\u202e', fromMs: 1_000, toMs: 61_000, end: 'expired' as const }
  expect(termText(led, 0, clock)).toBe(
    'a\\u{202e} led in term 4 from [1000] to [61000] (1 min). The term expired: the lease was not renewed in time.',
  )
  expect(termText({ ...led, toMs: undefined, end: undefined }, 31_000, clock)).toBe(
    'a\\u{202e} leads in term 4 from [1000], for 30 s so far.',
  )
})

test('jobIn reads a checkpoint that a job has written, and returns undefined for any other', () => {
  const checkpoint = JSON.stringify({
    lastRun: '2026-11-15T03:00:00.000Z',
    nextRun: '2026-11-16T03:00:00.000Z',
    schedule: '0 3 * * *',
    runs: [{ at: '2026-11-15T03:00:00.000Z', ms: 1_200, by: 'a', term: 3, result: 'failed', error: 'no' }, 7, {}],
  })
  expect(jobIn(checkpoint)).toMatchObject({
    schedule: '0 3 * * *',
    nextRunMs: Date.UTC(2026, 10, 16, 3),
    runs: [{ atMs: Date.UTC(2026, 10, 15, 3), durationMs: 1_200, by: 'a', result: 'failed', error: 'no' }],
  })
  for (const other of ['', 'page 7', '7', 'null', '[]', '{}', '{"lastRun":5}', '{"a":{"runs":[]}}']) {
    expect(jobIn(other), other).toBeUndefined()
  }
})

test('the color of a node depends only on its name, and all colors are used', () => {
  const names = Array.from({ length: 64 }, (_, index) => `node-${index}`)
  const colours = names.map(colorOf)
  expect(names.toReversed().map(colorOf)).toEqual(colours.toReversed())
  expect(new Set(colours)).toEqual(new Set([0, 1, 2, 3, 4, 5, 6, 7]))
  // Users remember the colors of their nodes, so these must never change.
  expect(['node-1', 'node-2', 'node-3', 'ä', ''].map(colorOf)).toEqual([3, 6, 1, 5, 4])
})

test('finishedIn says whether the job of an election without a leader is done or no longer scheduled', () => {
  const nextMs = Date.UTC(2026, 0, 1)
  const scheduled = JSON.stringify({ nextRun: new Date(nextMs).toISOString(), schedule: 'every hour', runs: [] })
  const ttlMs = 15_000
  expect(finishedIn({ checkpoint: scheduled, ttlMs }, nextMs + 10 * ttlMs)).toBeUndefined()
  expect(finishedIn({ checkpoint: scheduled, ttlMs }, nextMs + 10 * ttlMs + 1)).toBe('no longer scheduled')
  expect(finishedIn({ checkpoint: '{"done":"2026-01-01T00:00:00.000Z","runs":[]}', ttlMs }, nextMs)).toBe('done')
  expect(finishedIn({ checkpoint: '{"lastRun":"2026-01-01T00:00:00.000Z"}', ttlMs }, Infinity)).toBeUndefined()
  expect(finishedIn({ checkpoint: '', ttlMs }, Infinity)).toBeUndefined()
  expect(finishedIn(undefined, Infinity)).toBeUndefined()
})
