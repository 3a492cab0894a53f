import { expect, test } from 'vitest'
import { FieldReader, isLeaseDuration, isTerm } from '../src/field-reader.ts'

const invalid = (what: string) => new RangeError(`unusable: ${what}`)
const fieldsOf = (values: Record<string, unknown>) => new FieldReader(values, invalid)

test.each([
  [1, true, true],
  [Number.MAX_SAFE_INTEGER, true, true],
  [0, false, true],
  [-1, false, false],
  [1.5, false, false],
  [Number.MAX_SAFE_INTEGER + 1, false, false],
  [Number.NaN, false, false],
  ['1', false, false],
  [null, false, false],
])('isTerm(%j) returns %j, and %j when terms may start at 0', (value, own, shared) => {
  expect(isTerm(value)).toBe(own)
  expect(isTerm(value, 0)).toBe(shared)
})

test.each([
  [1, true, true],
  [0.5, true, true],
  [2 ** 31 - 1, true, true],
  [2 ** 31, false, false],
  [0, false, true],
  [-1, false, false],
  [Infinity, false, false],
  [Number.NaN, false, false],
  ['1000', false, false],
])('isLeaseDuration(%j) returns %j, and %j when the duration may be missing', (value, present, missing) => {
  expect(isLeaseDuration(value)).toBe(present)
  expect(isLeaseDuration(value, 'missing')).toBe(missing)
})

test('FieldReader returns valid fields unchanged', () => {
  const metadata = { zone: 'a' }
  const fields = fieldsOf({ text: '', term: 7, ms: 1_000, at: -5, released: false, metadata, none: null })
  expect([fields.text('text'), fields.optionalText('missing'), fields.isNull('none'), fields.isNull('text')]).toEqual([
    '',
    undefined,
    true,
    false,
  ])
  expect([fields.term('term'), fields.leaseDurationMs('ms'), fields.timeMs('at')]).toEqual([7, 1_000, -5])
  expect(fields.boolean('released')).toBe(false)
  expect(fields.object('metadata')).toBe(metadata)
})

test.each<[string, (fields: FieldReader) => unknown, unknown, string]>([
  ['a missing text', (fields) => fields.text('field'), undefined, '"field" is not a string'],
  ['an optional text that is null', (fields) => fields.optionalText('field'), null, '"field" is not a string'],
  ['a term of 0', (fields) => fields.term('field'), 0, '"field" is 0'],
  ['a term as text', (fields) => fields.term('field'), '3', '"field" is "3"'],
  ['a duration of 0', (fields) => fields.leaseDurationMs('field'), 0, '"field" is 0'],
  ['a duration that no timer can wait for', (fields) => fields.leaseDurationMs('field'), 2 ** 31, '2147483648'],
  ['a time that is not finite', (fields) => fields.timeMs('field'), Infinity, '"field" is null'],
  ['a flag as a number', (fields) => fields.boolean('field'), 1, '"field" is not a boolean'],
  ['an object that is a list', (fields) => fields.object('field'), [], '"field" is not an object'],
  ['an object that is null', (fields) => fields.object('field'), null, '"field" is not an object'],
])('FieldReader rejects %s with the error that its caller defines', (_, read, field, message) => {
  const reading = () => read(fieldsOf({ field }))
  expect(reading).toThrow(RangeError)
  expect(reading).toThrow(message)
})
