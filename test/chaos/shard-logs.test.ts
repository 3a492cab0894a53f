import { expect, test } from 'vitest'
import { checkOwners } from './check-owners.ts'
import { parseShardLog } from './shard-logs.ts'

const check = (...logs: readonly string[]) =>
  checkOwners(new Map(logs.map((log, index) => [`process-${index}`, parseShardLog(log)])))

test('parseShardLog repeats what a process owned until it changed, and drops a partial line', () => {
  expect(parseShardLog('1 2 [[7,65536]]\n3 4\n5 6 []\n7 8 [[7,6')).toEqual([
    { beforeUs: 1, afterUs: 2, owned: [[7, 65_536]] },
    { beforeUs: 3, afterUs: 4, owned: [[7, 65_536]] },
    { beforeUs: 5, afterUs: 6, owned: [] },
  ])
})

test('logs of owners that follow each other show no violation', () => {
  const { violations, grants } = check('1 2 [[7,1],[8,1]]\n9 10\n11 12 [[8,1]]\n50 51\n', '20 21 [[7,2]]\n30 31\n')
  expect({ violations, grants }).toEqual({ violations: [], grants: 3 })
})

test('an overlap in unchanged lines of a log is found', () => {
  const { violations } = check('1 2 [[7,1]]\n9 10\n25 26\n', '20 21 [[7,2]]\n30 31\n')
  expect(violations).toEqual([expect.stringContaining('two owners of shard 7')])
})

test('a token that a second process uses again is found', () => {
  const { violations } = check('1 2 [[7,2]]\n9 10\n', '20 21 [[7,2]]\n30 31\n')
  expect(violations).toEqual([expect.stringContaining('the token does not rise for shard 7')])
})

test('an answer that a pause delayed counts only up to its question', () => {
  expect(check('1 2 [[7,1]]\n9 900\n901 902 []\n', '20 21 [[7,2]]\n30 31\n').violations).toEqual([])
})
