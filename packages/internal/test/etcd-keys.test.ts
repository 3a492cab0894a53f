import { expect, test } from 'vitest'
import { afterKey, prefixEnd } from '../src/etcd-keys.ts'

test('a range of all keys with a prefix ends right behind them', () => {
  expect(prefixEnd('tenure/')).toBe('tenure0')
})

test('a listing goes on right behind a key, and behind all that have the same beginning if the key is not a text', () => {
  expect(afterKey('tenure/a')).toBe('tenure/a\0')
  expect(afterKey('tenure/a\uFFFDb')).toBe('tenure/b')
})
