import { expect, test } from 'vitest'
import { Seal } from '../../src/auth/seal.ts'

test('a seal is opened by the one that closed it, whole', () => {
  const seal = new Seal(128)
  const closed = seal.close('billing-1')
  expect(seal.open(closed)).toBe('billing-1')
  expect(closed).toHaveLength(seal.close('x'.repeat(128)).length)
  expect(new Seal(128).open(closed)).toBeUndefined()
  expect(seal.open(closed.slice(0, -4))).toBeUndefined()
  expect(seal.open('')).toBeUndefined()
})
