import { expect, test } from 'vitest'
import { decodeRecord, encodeRecord } from '../../src/store-kit/record.ts'

const draft = {
  election: 'jobs',
  holder: 'ada',
  attempt: 'a1',
  term: 7,
  leaseDurationMs: 15_000,
  acquiredAt: 1_900_000_000_000,
  renewedAt: 1_900_000_005_000,
  released: false,
  metadata: { zone: 'az-a' },
  checkpoint: 'last run: tuesday',
  writeId: 'm1',
}

test('decodeRecord returns the record that encodeRecord wrote', () => {
  expect(decodeRecord(encodeRecord(draft, () => 'unused'))).toEqual(draft)
})

test('decodeRecord ignores unknown fields', () => {
  expect(decodeRecord(JSON.stringify({ format: 1, ...draft, colour: 'red' }))).toEqual(draft)
})

test.each([
  ['', 'it is not JSON'],
  ['{"format":1', 'it is not JSON'],
  ['null', 'it is not a JSON object'],
  ['[]', 'it is not a JSON object'],
  ['"text"', 'it is not a JSON object'],
])('decodeRecord refuses the text %j', (text, why) => {
  expect(() => decodeRecord(text)).toThrow(expect.objectContaining({ code: 'RECORD_INVALID', retryable: false }))
  expect(() => decodeRecord(text)).toThrow(why)
})

test.each([
  ['format', undefined],
  ['format', 2],
  ['election', 7],
  ['holder', null],
  ['attempt', undefined],
  ['term', 0],
  ['term', -1],
  ['term', 1.5],
  ['term', '7'],
  ['term', 2 ** 53],
  ['leaseDurationMs', 0],
  ['leaseDurationMs', 2 ** 31],
  ['leaseDurationMs', null],
  ['acquiredAt', 'today'],
  ['renewedAt', null],
  ['released', 'false'],
  ['released', 0],
  ['metadata', []],
  ['metadata', null],
  ['metadata', 'none'],
  ['checkpoint', undefined],
])('decodeRecord refuses a record whose %s is %j and names the field', (field, value) => {
  const text = JSON.stringify({ format: 1, ...draft, [field]: value })
  expect(() => decodeRecord(text)).toThrow(expect.objectContaining({ code: 'RECORD_INVALID' }))
  expect(() => decodeRecord(text)).toThrow(field)
})
