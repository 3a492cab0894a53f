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

test('what is right is not taken for wrong', () => {
  const history = [
    granted(0, 'a', 1),
    renewed(50, 'a', 1),
    granted(150, 'b', 2),
    resigned(160, 'b', 2),
    granted(160, 'c', 3),
    // Its answer came when it had run out.
    { ...granted(300, 'd', 4), answeredMs: 420 },
    granted(410, 'e', 5),
  ]
  expect(contradictions(history)).toEqual([])
})

test.each([
  ['a term of two', [granted(0, 'a', 1), granted(200, 'b', 1)], 'term 1 is of a and of b'],
  ['a term after a higher one', [granted(0, 'a', 2), granted(200, 'b', 1)], 'term 1 was granted after term 2'],
  ['a term of somebody else', [at(0, 'a', { type: 'campaign', ttlMs: 1 }, { node: 'b', term: 1 })], 'a was granted'],
  ['two who lead at once', [granted(0, 'a', 1), granted(60, 'b', 2)], 'a in term 1 and b in term 2 both led for 35 ms'],
  ['a renewal too many', [granted(0, 'a', 1), renewed(90, 'a', 1), granted(120, 'b', 2)], 'both led for 65 ms'],
])('%s is found', (_what, history, says) => {
  expect(contradictions(history).join()).toContain(says)
})
