import { describe, expect, test } from 'vitest'
import { isBatch } from '../../src/http/json.ts'

describe('the outline of a batch', () => {
  const item = '{"group_id":"a","term":1,"extend_by_ms":5000}'

  test.each([
    ['as it should be', `{"node_id":"a","renewals":[${item},${item}]}`],
    ['in another order, with blanks', `{ "renewals" : [ {"term":1 , "group_id"\n:"b"} ] ,\t"node_id":"x" }`],
    ['with texts that look like keys', '{"node_id":"\\"a\\":","renewals":[{"group_id":"{[,:"}]}'],
    ['with none', '{"node_id":"a","renewals":[]}'],
    ['with what a schema refuses', '{"node_id":1,"renewals":[1,2,"x"]}'],
  ])('%s is let through', (_what, text) => {
    expect(isBatch(Buffer.from(text))).toBe(true)
    expect(() => void JSON.parse(text)).not.toThrow()
  })

  test.each([
    ['a key that means nothing', `{"node_id":"a","junk":1,"renewals":[]}`],
    ['one in a lease', `{"node_id":"a","renewals":[{"group_id":"a","terms":1}]}`],
    ['a key of a lease in the whole', '{"node_id":"a","term":1}'],
    ['a key of the whole in a lease', '{"renewals":[{"node_id":"a"}]}'],
    ['a key twice', '{"node_id":"a","node_id":"b","renewals":[]}'],
    ['a key twice in a lease', '{"renewals":[{"term":1,"group_id":"a","term":2}]}'],
    ['a key that is escaped', '{"node\\u005fid":"a"}'],
    ['an object where a number belongs', '{"renewals":[{"term":{}}]}'],
    ['a list within the list', '{"renewals":[[]]}'],
    ['an object as the node', '{"node_id":{}}'],
    ['a list of everything', '[]'],
    ['too many leases', `{"renewals":[${Array.from({ length: 100_001 }, () => '{}').join()}]}`],
    ['too many numbers', `{"renewals":[${Array.from({ length: 100_001 }, () => '1').join()}]}`],
  ])('with %s is refused before it is parsed', (_what, text) => {
    expect(isBatch(Buffer.from(text))).toBe(false)
  })
})
