import { expect, test } from 'vitest'
import { bandsIn, marksIn } from '../../src/model/time-line.ts'
import type { Term } from '../../src/model/terms.ts'

const term = (number: number, fromMs: number | undefined, toMs?: number): Term => ({
  term: number,
  node: `n${number}`,
  fromMs,
  toMs,
  end: toMs === undefined ? undefined : 'expired',
})
const range = { fromMs: 1_000, toMs: 2_000 }

test('terms are drawn as bands and are clipped at both edges of the timeline', () => {
  const bands = bandsIn([term(1, 0, 500), term(2, 600, 1_250), term(3, 1_500, 1_750), term(4, 1_800)], range)
  expect(
    bands.map(({ term: { term: number }, x, width, goesOn, endsHere }) => [number, x, width, goesOn, endsHere]),
  ).toEqual([
    [2, 0, 0.25, false, true],
    [3, 0.5, 0.25, false, true],
    [4, 0.8, expect.closeTo(0.2), true, false],
  ])
})

test('a very short term stays visible, even at the right edge', () => {
  const [short, last] = bandsIn([term(1, 1_500, 1_500), term(2, 2_000)], range)
  expect(short?.width).toBeGreaterThan(0.002)
  expect((last?.x ?? 1) + (last?.width ?? 1)).toBeLessThanOrEqual(1)
})

test('a term whose start was not observed begins where the previous one ended, or at the left edge', () => {
  expect(bandsIn([term(1, undefined, 1_500)], range)).toMatchObject([{ x: 0, width: 0.5 }])
  expect(bandsIn([term(1, 1_000, 1_250), term(2, undefined, 1_500)], range)).toMatchObject([
    {},
    { x: 0.25, width: 0.25 },
  ])
})

test('marksIn returns a few round times in the viewer’s time zone', () => {
  const hour = 3_600_000
  const marks = marksIn({ fromMs: 0.5 * hour, toMs: 6.5 * hour }, 0.5 * hour)
  // The marks are the full hours of a time zone that is half an hour ahead.
  expect(marks.map(({ atMs }) => atMs / hour)).toEqual([0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5])
  expect(marksIn({ fromMs: 0, toMs: 900_000 }, 0).length).toBeLessThanOrEqual(7)
  expect(marksIn({ fromMs: 0, toMs: 30 * 24 * hour }, 0).length).toBeGreaterThan(0)
})

test('the band of a current term stops growing at the last known time and keeps its start as time passes', () => {
  const terms = [{ term: 1, node: 'a', fromMs: 100, toMs: undefined, end: undefined }]
  const widthAt = (toMs: number, knownMs?: number) => {
    const [band] = bandsIn(terms, { fromMs: toMs - 1_000, toMs }, knownMs)
    return band && { fromMs: Math.round(toMs - 1_000 + band.x * 1_000), lastsMs: Math.round(band.width * 1_000) }
  }
  expect(widthAt(600)).toEqual({ fromMs: 100, lastsMs: 500 })
  expect(widthAt(600, 400)).toEqual({ fromMs: 100, lastsMs: 300 })
  expect(widthAt(900, 400)).toEqual({ fromMs: 100, lastsMs: 300 })
})
