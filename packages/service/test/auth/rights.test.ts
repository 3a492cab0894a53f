import { describe, expect, test } from 'vitest'
import { groupMatcher } from '../../src/auth/rights.ts'

describe('a pattern', () => {
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
  ])('%s stands for what it says', (pattern, yes, no) => {
    const matches = groupMatcher([pattern])
    expect(yes.filter((group) => !matches(group))).toEqual([])
    expect(no.filter((group) => matches(group))).toEqual([])
  })

  test('takes no longer the more stars it has', () => {
    const matches = groupMatcher(['a*'.repeat(60) + 'b'])
    const fromMs = performance.now()
    for (let round = 0; round < 1_000; round++) expect(matches('a'.repeat(128))).toBe(false)
    expect(performance.now() - fromMs).toBeLessThan(1_000)
  })
})

describe('patterns of groups', () => {
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

  test('mean the same, found in whichever way', () => {
    const sets = all.flatMap((one) => all.map((other) => [one, other]))
    for (const patterns of [[], ...sets]) {
      const mayJoin = groupMatcher(patterns)
      for (const text of texts) expect(mayJoin(text), `${patterns.join()} ${text}`).toBe(naive(patterns, text))
    }
  })

  test('are looked at only where they can fit: a thousand cost not much more than ten', () => {
    const timeOf = (count: number) => {
      const mayJoin = groupMatcher(Array.from({ length: count }, (_, index) => `team-${1_000 + index}-*`))
      const beganMs = performance.now()
      for (let index = 0; index < 50_000; index++) mayJoin(`other-${index}`)
      return performance.now() - beganMs
    }
    timeOf(10)
    const rounds = Array.from({ length: 5 }, () => timeOf(1_000) / timeOf(10))
    // One by one it would be a hundred times as much.
    expect(Math.min(...rounds)).toBeLessThan(20)
  })
})
