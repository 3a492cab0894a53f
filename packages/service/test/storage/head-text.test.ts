import { expect, test } from 'vitest'
import { decodeHead, encodeHead, firstHead } from '../../src/storage/head-text.ts'
import { encodeRecord } from '../../src/storage/record-text.ts'

const head = firstHead('cluster', 'server')

test('reading a head returns what was written', () => {
  const moved = { head, movedTo: 'elsewhere', isPartial: undefined }
  expect(decodeHead(encodeHead(moved))).toEqual(moved)
})

test('a head of an unknown format is refused with a message', () => {
  const later = encodeRecord('head', { ...head, format: 2 } as object, { commit: 0, seq: 0 })
  expect(() => decodeHead(later)).toThrow(
    'it has format 2; this version reads format 1. Use the version that wrote it.',
  )
})
