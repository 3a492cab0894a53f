import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { resultsFile, resultsPage, resultsPageFile } from '../scripts/results-page.js'

type Results = Parameters<typeof resultsPage>[0]

const published = JSON.parse(readFileSync(resultsFile, 'utf8')) as Results

test('docs/explanation/results.md shows what npm run results has recorded', () => {
  expect(published.length).toBeGreaterThan(0)
  expect(published.flatMap(({ runs }) => runs).length).toBeGreaterThan(0)
  expect(readFileSync(resultsPageFile, 'utf8')).toBe(resultsPage(published))
})

const run = {
  test: 'a fleet has one leader',
  server: 'Redis 7.0.15',
  seed: 7,
  seconds: 30,
  processes: 12,
  faults: { kill: 3, longPause: 2 },
  terms: 9,
  byDeath: 4,
  byRelease: 3,
  byExpiry: 1,
  byPause: 1,
  fencedWrites: 5,
  longestGapMs: 2_345,
  violations: [] as string[],
}
const suite = {
  path: 'test/chaos/redis.server.test.ts',
  startedAt: '2026-01-02T03:04:05.000Z',
  tookS: 45,
  commit: 'abc1234',
  node: 'v20.19.0',
  cores: 2,
  cpu: 'a processor',
  loads: [0.5, 3.2],
  count: { passed: 2, failed: 0, skipped: 0 },
  failed: [] as string[],
  runs: [run, { ...run, seed: 8, terms: 11 }],
}

test('the page has a row for each run, the sums of all runs, and the machine and its load', () => {
  const page = resultsPage([suite])
  expect(page).toContain(
    '| Redis 7.0.15 | [redis](../../test/chaos/redis.server.test.ts) | 30 s | 12 | 5 | 9 | 4 / 3 / 1 | 5 | 2.3 s | 0 |',
  )
  expect(page).toContain('In these 2 runs, 10 faults occurred in 60 s, 24 processes were started, and 20 terms')
  expect(page).toContain('The checks found no violation.')
  expect(page).toContain('seed 7: kill 3, long pause 2.')
  expect(page).toContain('The load of the machine was 0.5 before and 3.2 after. Of the tests in this file, 2 passed, 0')
})

test('a violation and a failed test are on the page', () => {
  const failing = {
    ...suite,
    failed: ['a fleet has one leader'],
    runs: [{ ...run, violations: ['two led in term 4'] }],
  }
  const page = resultsPage([failing])
  expect(page).toContain('The checks found one violation.')
  expect(page).toContain('- Violation: two led in term 4')
  expect(page).toContain('- Failed: a fleet has one leader')
})
