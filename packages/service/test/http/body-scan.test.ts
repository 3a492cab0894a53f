import { describe, expect, test } from 'vitest'
import { isBatch } from '../../src/http/body-scan.ts'

describe('isBatch', () => {
  const item = '{"group_id":"a","term":1,"extend_by_ms":5000}'

  test.each([
    ['in the usual form', `{"node_id":"a","renewals":[${item},${item}]}`],
    ['in another order and with blanks', `{ "renewals" : [ {"term":1 , "group_id"\n:"b"} ] ,\t"node_id":"x" }`],
    ['with texts that look like keys', '{"node_id":"\\"a\\":","renewals":[{"group_id":"{[,:"}]}'],
    ['with no renewals', '{"node_id":"a","renewals":[]}'],
    ['with values that the schema refuses', '{"node_id":1,"renewals":[1,2,"x"]}'],
  ])('a batch %s passes the outline check', (_what, text) => {
    expect(isBatch(Buffer.from(text))).toBe(true)
    expect(() => void JSON.parse(text)).not.toThrow()
  })

  test.each([
    ['an unknown key', `{"node_id":"a","junk":1,"renewals":[]}`],
    ['an unknown key in a renewal', `{"node_id":"a","renewals":[{"group_id":"a","terms":1}]}`],
    ['a key of a renewal at the top level', '{"node_id":"a","term":1}'],
    ['a top-level key in a renewal', '{"renewals":[{"node_id":"a"}]}'],
    ['a key twice', '{"node_id":"a","node_id":"b","renewals":[]}'],
    ['a key twice in a renewal', '{"renewals":[{"term":1,"group_id":"a","term":2}]}'],
    ['an escaped key', '{"node\\u005fid":"a"}'],
    ['an object where a number belongs', '{"renewals":[{"term":{}}]}'],
    ['a nested list', '{"renewals":[[]]}'],
    ['an object as the node', '{"node_id":{}}'],
    ['a list at the top level', '[]'],
    ['too many renewals', `{"renewals":[${Array.from({ length: 100_001 }, () => '{}').join()}]}`],
    ['too many numbers', `{"renewals":[${Array.from({ length: 100_001 }, () => '1').join()}]}`],
  ])('a batch with %s is refused before it is parsed', (_what, text) => {
    expect(isBatch(Buffer.from(text))).toBe(false)
  })
})
