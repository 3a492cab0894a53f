import { expect, test } from 'vitest'
import type { FailedFile, RunOutcome } from '../scripts/count-reporter.ts'
import { filesToRepeat, reportRepeated } from '../scripts/repeat-alone.js'

const path = 'packages/service/test/http/connections.process.test.ts'

function failedFile(changes: Partial<FailedFile> = {}): FailedFile {
  const count = { passed: 4, failed: 1, skipped: 0 }
  return { tier: 'process', path, tests: ['a connection is closed after its timeout'], count, ...changes }
}

function outcomeWith(failed: readonly FailedFile[], unhandledErrors = 0): RunOutcome {
  const count = { passed: 100, failed: failed.length + unhandledErrors, skipped: 2 }
  return { count, unhandledErrors, failed }
}

test('a file whose test of a deadline failed beside others is repeated', () => {
  expect(filesToRepeat(outcomeWith([failedFile()]))).toEqual([failedFile()])
})

test.each<[string, RunOutcome]>([
  ['a test in virtual time', outcomeWith([failedFile({ tier: 'quick' })])],
  ['a proof', outcomeWith([failedFile({ tier: 'proof', path: 'packages/testing/test/explore.proof.test.ts' })])],
  ['a run with faults', outcomeWith([failedFile(), failedFile({ path: 'test/chaos/redis.server.test.ts' })])],
  ['an unhandled error', outcomeWith([failedFile()], 1)],
  ['so many files that the change must be at fault', outcomeWith(Array.from({ length: 7 }, () => failedFile()))],
])('nothing is repeated after the failure of %s', (_what, outcome) => {
  expect(filesToRepeat(outcome)).toEqual([])
})

test('a run passes if the repeated file passes alone, and names the test that failed', () => {
  const alone = { count: { passed: 5, failed: 0, skipped: 0 }, unhandledErrors: 0, failed: [] }
  const { lines, isPassed } = reportRepeated(outcomeWith([failedFile()]), [failedFile()], [alone])
  expect(isPassed).toBe(true)
  expect(lines).toContain(`  passed alone: ${path} > a connection is closed after its timeout`)
  expect(lines.at(-1)).toBe('101 passed, 0 failed, 2 skipped')
})

test.each<[string, RunOutcome | undefined]>([
  ['fails again', outcomeWith([failedFile()])],
  ['is cut off', undefined],
  ['runs no test', { count: { passed: 0, failed: 0, skipped: 5 }, unhandledErrors: 0, failed: [] }],
])('a run fails if the repeated file %s', (_what, alone) => {
  const { lines, isPassed } = reportRepeated(outcomeWith([failedFile()]), [failedFile()], [alone])
  expect(isPassed).toBe(false)
  expect(lines.at(-1)).toBe('100 passed, 1 failed, 2 skipped')
})
