import { expect, test } from 'vitest'
import { resolveSettings, type Sources } from '../../../src/shared/arguments/settings.ts'
import { metadata } from '../../../src/shared/arguments/store-settings.ts'

const chosen = (flags: readonly string[] | undefined, variable?: string) => {
  const sources: Sources = {
    flags: flags ? { metadata: flags } : {},
    environment: { TENURE_METADATA: variable },
    file: undefined,
    from: { directory: '/' },
  }
  return resolveSettings({ metadata }, sources).metadata
}

test.for<[readonly string[], object]>([
  [['zone=a'], { zone: 'a' }],
  [['zone=a', 'rack=7'], { zone: 'a', rack: '7' }],
  [['note=a, b=c'], { note: 'a, b=c' }],
  [['empty='], { empty: '' }],
  [['{"zone":"a","rack":7}'], { zone: 'a', rack: 7 }],
  [['{"zone":"a"}', 'zone=b'], { zone: 'b' }],
])('--metadata %j is read as %j', ([flags, expected]) => {
  expect(chosen(flags)).toEqual(expected)
})

test('TENURE_METADATA holds one pair or one JSON object, which may contain commas', () => {
  expect(chosen(undefined, '{"a":"x , y","b":1}')).toEqual({ a: 'x , y', b: 1 })
  expect(chosen(undefined, 'zone=a,b')).toEqual({ zone: 'a,b' })
  expect(chosen(undefined)).toBeUndefined()
})

test.each(['zone', '=a', '[1]', '7', '{"zone"', '"a"', 'null'])('--metadata rejects %s', (text) => {
  expect(() => chosen([text])).toThrow(/^--metadata must be key=value or a JSON object, .*, not /)
})
