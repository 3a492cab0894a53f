import { describe, expect, test } from 'vitest'
import { unexplained, type Operation } from '../linearizable.ts'

const ttlMs = 100
type Answer = Operation['answer']
const ok = (term: number, node: string): Answer => ({ ok: true, leader: { node, term } })
const refused = (term: number, node: string): Answer => ({ ok: false, leader: { node, term } })
const nobody: Answer = { ok: false, leader: null }
const lost = undefined

/** `[sent, answered, words, answer]`, where the words are `a campaigns`, `a renews 1`, `a resigns 1`, or `a asks`. */
function history(...lines: [number, number, string, Answer][]): Operation[] {
  return lines.map(([sentMs, answeredMs, words, answer]) => {
    const [node = '', verb, term = '0'] = words.split(' ')
    const calls: Record<string, Operation['call']> = {
      campaigns: { type: 'campaign', ttlMs },
      renews: { type: 'renew', term: Number(term), ttlMs },
      resigns: { type: 'resign', term: Number(term) },
      asks: { type: 'leader' },
    }
    const call = calls[verb ?? '']
    if (!call) throw new Error(words)
    return { sentMs, answeredMs, node, call, answer }
  })
}

describe('histories that are linearizable', () => {
  test.each([
    [
      'calls one after the other, with a lease that expires',
      history(
        [0, 1, 'a campaigns', ok(1, 'a')],
        [2, 3, 'b campaigns', refused(1, 'a')],
        [50, 51, 'a renews 1', ok(1, 'a')],
        [150, 151, 'b campaigns', ok(2, 'b')],
        [152, 153, 'a renews 1', refused(2, 'b')],
      ),
    ],
    [
      'two concurrent campaigns of which the later one won',
      history([0, 10, 'a campaigns', refused(1, 'b')], [5, 9, 'b campaigns', ok(1, 'b')]),
    ],
    [
      'a resignation that is repeated for the same term',
      history(
        [0, 1, 'a campaigns', ok(1, 'a')],
        [2, 3, 'a resigns 1', ok(1, 'a')],
        [4, 5, 'a resigns 1', ok(1, 'a')],
        [6, 7, 'b asks', nobody],
        [8, 9, 'b campaigns', ok(2, 'b')],
      ),
    ],
    [
      'a resignation that took effect without an answer',
      history(
        [0, 1, 'a campaigns', ok(1, 'a')],
        [2, 10, 'a resigns 1', lost],
        [4, 5, 'b asks', { ok: true, leader: { node: 'a', term: 1 } }],
        [6, 7, 'b campaigns', ok(2, 'b')],
      ),
    ],
    [
      'a grant without an answer that other clients observed',
      history(
        [0, 1, 'a campaigns', lost],
        [2, 3, 'b campaigns', refused(1, 'a')],
        [102, 103, 'b campaigns', ok(2, 'b')],
      ),
    ],
    [
      'a grant without an answer that ended during a concurrent read',
      history(
        [0, 1, 'a campaigns', lost],
        [2, 20, 'b campaigns', refused(1, 'a')],
        [10, 40, 'c asks', nobody],
        [25, 30, 'a resigns 1', ok(1, 'a')],
      ),
    ],
    ['a term that nobody observed', history([0, 1, 'a campaigns', lost], [102, 103, 'b campaigns', ok(2, 'b')])],
  ])('the checker accepts %s', (_name, operations) => {
    expect(unexplained(operations)).toBeUndefined()
  })
})

describe('histories that are not linearizable', () => {
  test.each([
    [
      'a term that is granted twice',
      history([0, 1, 'a campaigns', ok(1, 'a')], [2, 3, 'a resigns 1', ok(1, 'a')], [4, 5, 'b campaigns', ok(1, 'b')]),
    ],
    [
      'a term below one that was granted',
      history([0, 1, 'a campaigns', ok(5, 'a')], [200, 201, 'b campaigns', ok(4, 'b')]),
    ],
    ['two leaders at the same time', history([0, 1, 'a campaigns', ok(1, 'a')], [50, 51, 'b campaigns', ok(2, 'b')])],
    [
      'a new leader before a renewed lease has ended',
      history(
        [0, 1, 'a campaigns', ok(1, 'a')],
        [90, 91, 'a renews 1', ok(1, 'a')],
        [150, 151, 'b campaigns', ok(2, 'b')],
      ),
    ],
    ['a grant that is forgotten', history([0, 1, 'a campaigns', ok(1, 'a')], [2, 3, 'b asks', nobody])],
    [
      'a renewal of a term after its holder resigned it',
      history([0, 1, 'a campaigns', ok(1, 'a')], [2, 3, 'a resigns 1', ok(1, 'a')], [4, 5, 'a renews 1', ok(1, 'a')]),
    ],
    [
      'a term that is observed after a read reported its end',
      history(
        [0, 1, 'a campaigns', ok(1, 'a')],
        [101, 102, 'b asks', nobody],
        [103, 104, 'c campaigns', refused(1, 'a')],
      ),
    ],
    ['a refused renewal of a live lease', history([0, 1, 'a campaigns', ok(1, 'a')], [50, 51, 'a renews 1', nobody])],
    [
      'a resignation without an answer that took effect before it was sent',
      history([0, 1, 'a campaigns', ok(1, 'a')], [2, 3, 'b campaigns', ok(2, 'b')], [4, 5, 'a resigns 1', lost]),
    ],
    [
      'a resignation without an answer that took effect after its service was gone',
      history(
        [0, 1, 'a campaigns', ok(1, 'a')],
        [2, 3, 'a resigns 1', lost],
        [4, 5, 'b asks', { ok: true, leader: { node: 'a', term: 1 } }],
        [6, 7, 'b campaigns', ok(2, 'b')],
      ),
    ],
  ])('the checker rejects %s', (_name, operations) => {
    expect(unexplained(operations)).toMatch(/No order explains/)
  })
})
