import { describe, expect, test } from 'vitest'
import { groupMatcher } from '../../src/groups/group-pattern.ts'

describe('group patterns', () => {
  test.each([
    ['payments-*', ['payments-', 'payments-1', 'payments-a-b'], ['payments', 'xpayments-1', 'Payments-1']],
    ['*', ['a', 'payments-1'], []],
    ['*-eu', ['-eu', 'a-eu'], ['a-eu-1', 'eu']],
    ['a*b', ['ab', 'axb', 'abb'], ['a', 'b', 'ba', 'abc']],
    ['ab*ba', ['abba', 'abxba'], ['aba', 'ab', 'ba']],
    ['a*b*c', ['abc', 'axbxc', 'abbc'], ['ac', 'acb', 'abcx']],
    ['a**b', ['ab', 'axb'], ['a']],
    ['a.c', ['a.c'], ['abc']],
    ['shared', ['shared'], ['shared-1', 'share']],
  ])('the pattern %s matches the whole group id, with any characters in place of each star', (pattern, yes, no) => {
    const matches = groupMatcher([pattern])
    expect(yes.filter((group) => !matches(group))).toEqual([])
    expect(no.filter((group) => matches(group))).toEqual([])
  })

  test('matching takes no longer for a pattern with many stars', () => {
    const matches = groupMatcher(['a*'.repeat(60) + 'b'])
    const fromMs = performance.now()
    for (let round = 0; round < 1_000; round++) expect(matches('a'.repeat(128))).toBe(false)
    expect(performance.now() - fromMs).toBeLessThan(1_000)
  })
})

describe('sets of group patterns', () => {
  const naive = (patterns: readonly string[], text: string) =>
    patterns.some((pattern) => {
      const parts = pattern.split('*').map((part) => part.replaceAll(/[.]/g, '\\.'))
      return new RegExp(`^${parts.join('.*')}$`).test(text)
    })
  const all = [
    'a',
    'ab',
    'a*',
    'ab*',
    '*a',
    '*ab',
    'a*b',
    'ab*ab',
    '*',
    '**',
    '*a*',
    '*ab*a',
    'a**b',
    '*b*',
    'b.*',
    '*.b',
  ]
  const texts = ['a', 'b', 'ab', 'ba', 'aba', 'abab', 'aab', 'abb', 'bab', 'b.', 'b.b', 'a.b', '.b', 'c', 'abcab']

  test('a set of patterns matches the same groups as its patterns one by one', () => {
    const sets = all.flatMap((one) => all.map((other) => [one, other]))
    for (const patterns of [[], ...sets]) {
      const mayJoin = groupMatcher(patterns)
      for (const text of texts) expect(mayJoin(text), `${patterns.join()} ${text}`).toBe(naive(patterns, text))
    }
  })

  test('matching a thousand patterns takes little longer than matching ten', () => {
    const timeOf = (count: number) => {
      const mayJoin = groupMatcher(Array.from({ length: count }, (_, index) => `team-${1_000 + index}-*`))
      const beganMs = performance.now()
      for (let index = 0; index < 50_000; index++) mayJoin(`other-${index}`)
      return performance.now() - beganMs
    }
    timeOf(10)
    const rounds = Array.from({ length: 5 }, () => timeOf(1_000) / timeOf(10))
    // Matching the patterns one by one would take a hundred times as long.
    expect(Math.min(...rounds)).toBeLessThan(20)
  })
})
