import { describe, expect, test } from 'vitest'
import { unexplained, type Operation } from './linearizable.ts'

const ttlMs = 100
type Answer = Operation['answer']
const ok = (term: number, node: string): Answer => ({ ok: true, leader: { node, term } })
const refused = (term: number, node: string): Answer => ({ ok: false, leader: { node, term } })
const nobody: Answer = { ok: false, leader: null }
const lost = undefined

/** `[sent, answered, node, call, answer]`, in words: `a campaigns`, `a renews 1`, `a resigns 1`, `a asks`. */
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

describe('these histories are explained:', () => {
  test.each([
    [
      'one after the other, with an end by time',
      history(
        [0, 1, 'a campaigns', ok(1, 'a')],
        [2, 3, 'b campaigns', refused(1, 'a')],
        [50, 51, 'a renews 1', ok(1, 'a')],
        [150, 151, 'b campaigns', ok(2, 'b')],
        [152, 153, 'a renews 1', refused(2, 'b')],
      ),
    ],
    [
      'two at once, of which the one that was sent later won',
      history([0, 10, 'a campaigns', refused(1, 'b')], [5, 9, 'b campaigns', ok(1, 'b')]),
    ],
    [
      'a resignation, and a second one of the same term',
      history(
        [0, 1, 'a campaigns', ok(1, 'a')],
        [2, 3, 'a resigns 1', ok(1, 'a')],
        [4, 5, 'a resigns 1', ok(1, 'a')],
        [6, 7, 'b asks', nobody],
        [8, 9, 'b campaigns', ok(2, 'b')],
      ),
    ],
    [
      'a resignation without an answer that was carried out',
      history(
        [0, 1, 'a campaigns', ok(1, 'a')],
        [2, 10, 'a resigns 1', lost],
        [4, 5, 'b asks', { ok: true, leader: { node: 'a', term: 1 } }],
        [6, 7, 'b campaigns', ok(2, 'b')],
      ),
    ],
    [
      'a grant without an answer that others saw',
      history(
        [0, 1, 'a campaigns', lost],
        [2, 3, 'b campaigns', refused(1, 'a')],
        [102, 103, 'b campaigns', ok(2, 'b')],
      ),
    ],
    [
      'a grant without an answer that others saw, and its end within the time of a question',
      history(
        [0, 1, 'a campaigns', lost],
        [2, 20, 'b campaigns', refused(1, 'a')],
        [10, 40, 'c asks', nobody],
        [25, 30, 'a resigns 1', ok(1, 'a')],
      ),
    ],
    ['a term that nobody saw', history([0, 1, 'a campaigns', lost], [102, 103, 'b campaigns', ok(2, 'b')])],
  ])('%s', (_name, operations) => {
    expect(unexplained(operations)).toBeUndefined()
  })
})

describe('these are not:', () => {
  test.each([
    [
      'a term that is granted twice',
      history([0, 1, 'a campaigns', ok(1, 'a')], [2, 3, 'a resigns 1', ok(1, 'a')], [4, 5, 'b campaigns', ok(1, 'b')]),
    ],
    [
      'a term below one that was granted',
      history([0, 1, 'a campaigns', ok(5, 'a')], [200, 201, 'b campaigns', ok(4, 'b')]),
    ],
    ['two who lead at the same time', history([0, 1, 'a campaigns', ok(1, 'a')], [50, 51, 'b campaigns', ok(2, 'b')])],
    [
      'another who leads before a renewed lease is over',
      history(
        [0, 1, 'a campaigns', ok(1, 'a')],
        [90, 91, 'a renews 1', ok(1, 'a')],
        [150, 151, 'b campaigns', ok(2, 'b')],
      ),
    ],
    ['a grant that is forgotten', history([0, 1, 'a campaigns', ok(1, 'a')], [2, 3, 'b asks', nobody])],
    [
      'a term that is renewed after its holder was told of its end',
      history([0, 1, 'a campaigns', ok(1, 'a')], [2, 3, 'a resigns 1', ok(1, 'a')], [4, 5, 'a renews 1', ok(1, 'a')]),
    ],
    [
      'a term that is seen after anybody was told of its end',
      history(
        [0, 1, 'a campaigns', ok(1, 'a')],
        [101, 102, 'b asks', nobody],
        [103, 104, 'c campaigns', refused(1, 'a')],
      ),
    ],
    [
      'a holder whose renewal is refused in time',
      history([0, 1, 'a campaigns', ok(1, 'a')], [50, 51, 'a renews 1', nobody]),
    ],
    [
      'a resignation without an answer that was carried out before it was sent',
      history([0, 1, 'a campaigns', ok(1, 'a')], [2, 3, 'b campaigns', ok(2, 'b')], [4, 5, 'a resigns 1', lost]),
    ],
    [
      'a resignation without an answer that was carried out after its service was gone',
      history(
        [0, 1, 'a campaigns', ok(1, 'a')],
        [2, 3, 'a resigns 1', lost],
        [4, 5, 'b asks', { ok: true, leader: { node: 'a', term: 1 } }],
        [6, 7, 'b campaigns', ok(2, 'b')],
      ),
    ],
  ])('%s', (_name, operations) => {
    expect(unexplained(operations)).toMatch(/No order explains/)
  })
})
