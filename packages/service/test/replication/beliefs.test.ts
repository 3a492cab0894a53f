import { expect, test } from 'vitest'
import type { Operation } from '../linearizable.ts'
import { contradictions } from './beliefs.ts'

const at = (sentMs: number, node: string, call: Operation['call'], leader?: { node: string; term: number }) => ({
  sentMs,
  answeredMs: sentMs + 5,
  node,
  call,
  answer: { ok: true, leader },
})
const granted = (sentMs: number, node: string, term: number, ttlMs = 100) =>
  at(sentMs, node, { type: 'campaign', ttlMs }, { node, term })
const renewed = (sentMs: number, node: string, term: number) => at(sentMs, node, { type: 'renew', term, ttlMs: 100 })
const resigned = (sentMs: number, node: string, term: number) => at(sentMs, node, { type: 'resign', term })

test('contradictions accepts a correct history', () => {
  const history = [
    granted(0, 'a', 1),
    renewed(50, 'a', 1),
    granted(150, 'b', 2),
    resigned(160, 'b', 2),
    granted(160, 'c', 3),
    // The answer arrived after the lease had expired.
    { ...granted(300, 'd', 4), answeredMs: 420 },
    granted(410, 'e', 5),
  ]
  expect(contradictions(history)).toEqual([])
})

test.each([
  ['a term that two nodes were granted', [granted(0, 'a', 1), granted(200, 'b', 1)], 'term 1 belongs to both a and b'],
  [
    'a term that was granted after a higher one',
    [granted(0, 'a', 2), granted(200, 'b', 1)],
    'term 1 was granted after term 2',
  ],
  [
    'a campaign that was granted the term of another node',
    [at(0, 'a', { type: 'campaign', ttlMs: 1 }, { node: 'b', term: 1 })],
    'a was granted',
  ],
  [
    'two leaders at the same time',
    [granted(0, 'a', 1), granted(60, 'b', 2)],
    'a in term 1 and b in term 2 both led for 35 ms',
  ],
  [
    'a renewal that overlaps the next grant',
    [granted(0, 'a', 1), renewed(90, 'a', 1), granted(120, 'b', 2)],
    'both led for 65 ms',
  ],
])('contradictions reports %s', (_what, history, says) => {
  expect(contradictions(history).join()).toContain(says)
})
