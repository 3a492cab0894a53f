import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { refusedInText } from './refused-phrases.ts'
import { listFiles, root } from './source-files.ts'
import { statementMistake } from './test-names.ts'
import { testNamesIn } from './text-literals.ts'

function findMistakes(path: string, source: string): string[] {
  const { titles, others } = testNamesIn(path, source)
  const found = [
    ...[...titles, ...others].flatMap(({ line, text }) => refusedInText(text).map((refused) => ({ line, refused }))),
    ...titles.flatMap(({ line, text }) => {
      const mistake = statementMistake(text)
      return mistake === undefined ? [] : [{ line, refused: `"${text}": ${mistake}` }]
    }),
  ]
  return found.toSorted((a, b) => a.line - b.line).map(({ line, refused }) => `${path}:${line} ${refused}`)
}

test('the name of every test is a statement without a phrase that must be read twice', { timeout: 120_000 }, () => {
  const paths = listFiles().filter((path) => /(?:^|\/)test\/.*\.tsx?$/.test(path))
  expect(paths.length).toBeGreaterThan(500)
  expect(paths.flatMap((path) => findMistakes(path, readFileSync(join(root, path), 'utf8')))).toEqual([])
})

test('a refused phrase is found in every kind of name, and not in other texts', () => {
  const planted = [
    "test('a caller is told', () => {})",
    'describe.each(rows)(`a lease of ${ms} that has run out`, () => {})',
    "describeWith(redis, 'a watch that falls silent', () => {})",
    "test.skipIf(windows).each([1])('%i is read anew', () => {})",
    "const mutants = [{ name: 'a call is under way', find: 'is told', caughtBy: 'a read shows what became of it' }]",
    "const checks = { async 'the clock stands still'() {}, 'it lies in the store': check }",
    "expect(text).toBe('is told')",
  ].join('\n')
  expect(findMistakes('a.ts', planted)).toEqual(
    [
      '1 "is told"',
      '2 "run out"',
      '3 "falls silent"',
      '4 "anew"',
      '5 "under way"',
      '5 "what became of"',
      '6 "stands still"',
      '6 "lies in the"',
    ].map((found) => expect.stringContaining(`a.ts:${found}`)),
  )
})

test('a name that is not a statement is found in every form of test', () => {
  const planted = [
    "test('that breaks off soon', () => {})",
    "it('which is refused', () => {})",
    "test.each([1])('when the store hangs', () => {})",
    "test('the happy path', { timeout: 5 }, async () => {})",
    "test.for([1])('options of the store', () => {})",
    "test('renewal', () => {})",
    "test('it works', () => {})",
    "test('the store behaves as expected', () => {})",
    "test('a follower does not write either', () => {})",
    "describe('renewal', () => {})",
    "test('renew fails', () => {})",
  ].join('\n')
  expect(findMistakes('a.ts', planted)).toEqual(
    [
      '1 "that breaks off soon": it begins with "that"',
      '2 "which is refused": it begins with "which"',
      '3 "when the store hangs": it begins with "when"',
      '4 "the happy path": it has no verb',
      '5 "options of the store": it has no verb',
      '6 "renewal": it has no verb',
      '7 "it works": "it works" does not say',
      '8 "the store behaves as expected": "as expected" does not say',
      '9 "a follower does not write either": it ends with "either"',
    ].map((found) => expect.stringContaining(`a.ts:${found}`)),
  )
})

test.each([
  'renew fails when the record has a newer version',
  'a standby takes over when the lease expires',
  'two electors share one connection',
  'writes of the same term run concurrently',
  'a renewal and a release take one request each',
  'help and version go to standard output',
  'nothing is sent after the deadline',
  'a client that trusts two certificates reaches a service with either',
  'Scenario: Missing identity rejected',
])('a statement is accepted: %s', (name) => {
  expect(statementMistake(name)).toBeUndefined()
})
