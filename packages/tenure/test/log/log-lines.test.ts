import fc from 'fast-check'
import { expect, test } from 'vitest'
import { formatDuration, LogLines } from '../../src/log/rate-limited-log.ts'
import { fakeClock } from '../../../testing/src/index.ts'
import { memoryLog } from './checks.ts'

function scene() {
  const clock = fakeClock()
  const { lines, log } = memoryLog()
  const found = LogLines.of(clock, log)
  if (!found) return expect.fail('LogLines.of returned undefined')
  return { clock, lines, of: found, log }
}

test('ten thousand lines that differ only in names and numbers become five lines and a count', async () => {
  const { clock, lines, of } = scene()
  for (let n = 0; n < 10_000; n++) {
    of.write('warn', `renewing "tenant-${n}" failed after ${n} ms`, { name: `tenant-${n}` })
  }
  expect(lines).toHaveLength(5)
  await clock.advance(60_000)
  of.tick(clock.monotonicMs())
  const names = Array.from({ length: 20 }, (_, n) => `"tenant-${n + 5}" 1`).join(', ')
  expect(lines[5]).toBe(
    `warn tenure: in the last 60 s, 9995 more lines (${names}, others 9975) like: renewing "tenant-9999" failed after 9999 ms`,
  )
  expect(lines).toHaveLength(6)
})

test('every line is written or counted, and the number of lines per minute is bounded', async () => {
  const word = fc.constantFrom('a', 'b', 'c', 'd')
  const message = fc.oneof(
    fc.tuple(word, fc.nat(9)).map(([name, n]) => `${name} failed ${n} times`),
    fc.array(word, { minLength: 1, maxLength: 8 }).map((words) => words.join(' ')),
  )
  const step = fc.record({ message, ms: fc.oneof(fc.constant(0), fc.nat(30_000)) })
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 400 }), async (steps) => {
      const { clock, lines, of } = scene()
      const times: number[] = []
      for (const { message: text, ms } of steps) {
        await clock.advance(ms)
        const before = lines.length
        of.write('warn', text)
        times.push(...lines.slice(before).map(() => clock.monotonicMs()))
      }
      await clock.advance(60_000)
      of.tick(clock.monotonicMs())
      const counts = lines.map((line) => Number(/^warn tenure: in the last .*?, (\d+) more/.exec(line)?.[1] ?? 1))
      expect(counts.reduce((sum, count) => sum + count, 0)).toBe(steps.length)
      for (const atMs of times) {
        const inMinute = times.filter((other) => other >= atMs && other < atMs + 60_000).length
        // There are 51 kinds, and up to two windows of each begin within a minute.
        expect(inMinute).toBeLessThanOrEqual(51 * 2 * 6)
      }
    }),
    { numRuns: 50 },
  )
})

test('after fifty kinds of lines within a minute, the summary of the other lines keeps their level', async () => {
  const { clock, lines, of } = scene()
  const letters = (n: number) => String.fromCodePoint(97 + Math.floor(n / 26), 97 + (n % 26))
  for (let n = 0; n < 60; n++) of.write('warn', `${letters(n)} is slow`)
  for (let n = 0; n < 60; n++) of.write('error', `${letters(n)} failed`)
  await clock.advance(60_000)
  of.tick(clock.monotonicMs())
  const summaries = lines.filter((line) => line.includes(' more line'))
  expect(summaries.map((line) => /^(\w+) .*(slow|failed)$/.exec(line)?.slice(1))).toEqual([
    ['warn', 'slow'],
    ['error', 'failed'],
  ])
})

test('after fifty kinds of lines within a minute, all other lines count as one kind', async () => {
  const { clock, lines, of } = scene()
  const letters = 'abcdefghij'
  for (const one of letters) {
    for (const other of letters) of.write('warn', `${one}${other} failed`)
  }
  expect(lines).toHaveLength(50 + 5)
  await clock.advance(60_000)
  of.tick(clock.monotonicMs())
  expect(lines.at(-1)).toBe('warn tenure: in the last 60 s, 45 more lines like: jj failed')
  of.write('warn', 'kk failed')
  expect(lines.at(-1), 'a new kind has its own line again').toBe('warn tenure: kk failed')
})

test('a line contains no control characters and has a limited length', () => {
  const { lines, of } = scene()
  of.write('error', `the server said \u001b[2J\r\nwhat ${'x'.repeat(10_000)}`)
  expect(lines[0]).toMatch(/^error tenure: the server said +\[2J +what x+$/)
  expect(lines[0]?.length).toBeLessThan(4_100)
})

test('a repeated text is written once per minute, with a count', async () => {
  const { clock, lines, of } = scene()
  for (let seconds = 0; seconds < 120; seconds += 2) {
    of.write('warn', 'the watch broke', { countsRepeats: true })
    await clock.advance(2_000)
  }
  expect(lines).toEqual([
    'warn tenure: the watch broke',
    'warn tenure: in the last 60 s, 29 more lines like: the watch broke',
  ])
})

test('info lines are never rate-limited', () => {
  const { lines, of } = scene()
  for (let n = 0; n < 100; n++) of.write('info', `this process leads "tenant-${n}"`)
  expect(lines).toHaveLength(100)
})

test('LogLines.of returns the same instance for the same clock and log', () => {
  const { clock, log, of } = scene()
  expect(LogLines.of(clock, log)).toBe(of)
  expect(LogLines.of(fakeClock(), log)).not.toBe(of)
  expect(LogLines.of(clock, false)).toBeUndefined()
})

test.each([
  [0, '0 ms'],
  [40, '40 ms'],
  [999.7, '1.0 s'],
  [26_000, '26 s'],
  [119_000, '119 s'],
  [180_000, '3 min'],
  [3_661_000, '61 min'],
  [7_500_000, '2 h 5 min'],
])('formatDuration formats %d ms as %s', (ms, words) => expect(formatDuration(ms)).toBe(words))
