import { expect, test } from 'vitest'
import { afterKey, prefixEnd } from '../src/etcd-keys.ts'

test('prefixEnd returns the first key after all keys with a prefix', () => {
  expect(prefixEnd('tenure/')).toBe('tenure0')
})

test('afterKey returns where a listing continues, and skips all keys with the same ASCII prefix after a key that is not ASCII', () => {
  expect(afterKey('tenure/a')).toBe('tenure/a\0')
  expect(afterKey('tenure/a\uFFFDb')).toBe('tenure/b')
})
