import { expect, test } from 'vitest'
import { deriveKeys, Seal } from '../../src/common/seal.ts'

const sealOf = (secret: string, purpose = 'pages') => new Seal(deriveKeys(secret, purpose), 128)

test('a seal can be opened by anyone with the secret and reveals nothing, not even the length of its text', () => {
  const seal = sealOf('one')
  const closed = seal.close('payments')
  expect(closed).not.toContain('payments')
  expect(sealOf('one').open(closed)).toBe('payments')
  expect(seal.close('a').length).toBe(closed.length)
  expect(seal.close('payments')).not.toBe(closed)
})

test('a seal cannot be opened with another secret, for another purpose, or after it was changed', () => {
  const closed = sealOf('one').close('payments')
  expect(sealOf('two').open(closed)).toBeUndefined()
  expect(sealOf('one', 'cursors').open(closed)).toBeUndefined()
  expect(sealOf('one').open(`${closed.startsWith('A') ? 'B' : 'A'}${closed.slice(1)}`)).toBeUndefined()
  expect(sealOf('one').open('')).toBeUndefined()
})

test('a seal that was made with the previous secret can still be opened after the secret was replaced', () => {
  const replaced = sealOf('two one')
  expect(replaced.open(sealOf('one').close('payments'))).toBe('payments')
  expect(sealOf('two').open(replaced.close('payments'))).toBe('payments')
  expect(sealOf('three two').open(sealOf('one').close('payments'))).toBeUndefined()
})
