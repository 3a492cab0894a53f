import { expect, test } from 'vitest'
import { parseStrictJson } from '../../src/auth/strict-json.ts'

test('strict JSON accepts each key only once per object', () => {
  for (const text of [
    '{"a":1,"b":{"a":1},"c":[{"a":1},{"a":1}]}',
    '["a","a"]',
    '{"a":"a","b":"\\"a\\":"}',
    '"a"',
    '{"a":"\\\\","b":"\\\\"}',
    '{"":1,"a":[],"b":{}}',
  ]) {
    expect(parseStrictJson(text)).toEqual(JSON.parse(text))
  }
  for (const text of [
    '{"a":1,"a":1}',
    '{"a":1,"\\u0061":1}',
    '[{"b":{"a":1 , "a" :2}}]',
    '{"a":{"x":1},"b":[1],"a":0}',
    '{"":1,"":1}',
    '{"__proto__":1,"__proto__":1}',
    '{',
    '',
  ]) {
    expect(() => parseStrictJson(text)).toThrow(SyntaxError)
  }
})
