import { expect, test } from 'vitest'
import type { PageEvent } from '../../src/model/answers.ts'
import { mostTerms, withChange, withLease, withPrevious, type Terms } from '../../src/model/terms.ts'
import { elected, lease, lost } from './answers.ts'

const all = (events: readonly PageEvent[], terms: Terms = []) => events.reduce(withChange, terms)

test('withChange returns each term with its start, its end, and the reason why it ended', () => {
  const terms = all([elected('a', 1), lost('a', 1, 'resigned', 2_000), elected('b', 2), lost('b', 2, 'expired', 9_000)])
  expect(terms).toEqual([
    { term: 1, node: 'a', fromMs: 1_000, toMs: 2_000, end: 'resigned' },
    { term: 2, node: 'b', fromMs: 2_000, toMs: 9_000, end: 'expired' },
  ])
})

test('withChange returns the same terms when changes are reordered or repeated', () => {
  const events = [
    elected('a', 1),
    lost('a', 1, 'resigned', 2_000),
    elected('b', 2, 2_500),
    lost('b', 2, 'expired', 9_000),
    elected('c', 4, 9_500),
  ]
  const usual = all(events)
  expect(all(events.toReversed())).toEqual(usual)
  expect(all([...events, ...events.toReversed()])).toEqual(usual)
})

test('a term ends when the next one begins, even if its end was not observed', () => {
  const terms = all([elected('a', 1), elected('b', 2, 5_000)])
  expect(terms[0]).toEqual({ term: 1, node: 'a', fromMs: 1_000, toMs: 5_000, end: 'unseen' })
  expect(all([lost('a', 1, 'expired', 4_000)], terms)[0]).toMatchObject({ toMs: 4_000, end: 'expired' })
})

test('withLease starts a term at its grant, and withPrevious ends a term at its last renewal unless its end is known', () => {
  expect(withLease([], lease('a', 3))).toEqual([{ term: 3, node: 'a', fromMs: 3_000, toMs: undefined, end: undefined }])
  const over = withPrevious([], lease('a', 3))
  expect(over).toEqual([{ term: 3, node: 'a', fromMs: 3_000, toMs: 3_500, end: 'unseen' }])
  expect(all([lost('a', 3, 'resigned', 3_700)], over)[0]).toMatchObject({ toMs: 3_700, end: 'resigned' })
  expect(withPrevious(all([lost('a', 3, 'resigned', 3_700)]), lease('a', 3))[0]).toMatchObject({ end: 'resigned' })
})

test('withChange keeps at most mostTerms terms', () => {
  const events = Array.from({ length: mostTerms + 20 }, (_, index) => elected('a', index + 1))
  expect(all(events)).toHaveLength(mostTerms)
  expect(all(events).at(-1)?.term).toBe(mostTerms + 20)
})
