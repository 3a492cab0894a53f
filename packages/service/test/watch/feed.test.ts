import { describe, expect, test } from 'vitest'
import {
  batchEnd,
  isWrittenAfter,
  positionFrom,
  positionOf,
  textOf,
  type Position,
} from '../../src/storage/position.ts'
import type { KeptChange } from '../../src/groups/port.ts'
import { sampleLease } from '../sample-lease.ts'
import { newFeed } from './new-feed.ts'

const at = (seq: number, index = batchEnd): Position => ({ restores: 0, term: 0, seq, index })
const change = (position: Position, texts: object = {}): KeptChange => ({
  type: 'LEADER_CHANGED',
  groupId: 'jobs',
  lease: { ...sampleLease, ...texts },
  atMs: 0,
  position,
})

describe('cursors', () => {
  test('a cursor identifies a position without revealing it', () => {
    const feed = newFeed()
    const positions = Array.from({ length: 200 }, (_, index) => feed.add(change(at(index + 2))).position)
    const cursors = positions.map((position) => feed.cursorAt(position))
    expect(cursors.map((cursor) => feed.find(cursor))).toEqual(positions)
    // All cursors have the same length and no common prefix.
    expect(new Set(cursors.map(({ length }) => length))).toEqual(new Set([94]))
    expect(new Set(cursors.map((cursor) => cursor.slice(0, 12))).size).toBe(200)
  })

  test('two cursors for the same position differ, so that equal cursors never reveal that nothing happened', () => {
    const feed = newFeed()
    const { position } = feed.add(change(at(2)))
    const cursors = Array.from({ length: 50 }, () => feed.cursorAt(position))
    expect(new Set(cursors).size).toBe(50)
    expect(cursors.map((cursor) => feed.find(cursor))).toEqual(cursors.map(() => position))
  })

  test('a cursor is valid on every replica and after a restart', () => {
    const position = at(7, 3)
    expect(newFeed({ seq: 90 }).find(newFeed({ seq: 7 }).cursorAt(position))).toEqual(position)
  })

  test('a cursor that is forged or comes from another cluster is refused', () => {
    const feed = newFeed()
    const cursor = feed.cursorAt(feed.add(change(at(2))).position)
    const other = (letter: string) => (letter === 'A' ? 'B' : 'A')
    for (const text of [
      cursor.slice(0, -1),
      `${cursor}A`,
      cursor.replace(/.(?=.{20}$)/, other),
      newFeed({ secret: 'other' }).cursorAt(at(2)),
    ]) {
      expect(feed.find(text), text).toBeUndefined()
    }
  })

  test('a cursor has room for the largest position', () => {
    const largest = { restores: 2 ** 53 - 1, term: 2 ** 53 - 1, seq: 2 ** 53 - 1, index: batchEnd }
    expect(textOf(largest)).toHaveLength(42)
    expect(positionFrom(textOf(largest))).toEqual(largest)
    for (const text of ['', '1.2.3', '1.2.3.4.5', '1.2.3.!']) expect(positionFrom(text), text).toBeUndefined()
  })
})

test('the changes after a position are found even if the position is between two changes', () => {
  const feed = newFeed()
  for (const position of [at(2, 0), at(2, 3), at(2), at(5), at(9, 0)]) feed.add(change(position))
  const after = (position: Position) => feed.after(position)?.map((entry) => [entry.position.seq, entry.position.index])
  expect(after(at(1))).toHaveLength(5)
  expect(after(at(2, 1))).toEqual([
    [2, 3],
    [2, batchEnd],
    [5, batchEnd],
    [9, 0],
  ])
  expect(after(at(3))).toEqual([
    [5, batchEnd],
    [9, 0],
  ])
  expect(after(at(9, 0))).toEqual([])
})

test('changes that were dropped or that precede the start are not available', () => {
  const feed = newFeed({ seq: 4, limit: 3 })
  expect(feed.after(at(3))).toBeUndefined()
  for (let seq = 5; seq <= 11; seq++) feed.add(change(at(seq)))
  expect(feed.after(at(7))).toBeUndefined()
  expect(feed.after(at(8))?.map(({ position }) => position.seq)).toEqual([9, 10, 11])
  // isBefore is true only for a position before the start. The other watchers were too slow or missed nothing.
  expect([at(3), at(4), at(7)].map((position) => feed.isBefore(position))).toEqual([true, false, false])
})

test('earlier positions of a feed can be resumed after advance, but not after skipTo', () => {
  const feed = newFeed()
  feed.add(change(at(2)))
  feed.advance(at(6))
  expect(feed.after(at(1))).toHaveLength(1)
  expect(feed.position).toEqual(at(6))
  feed.skipTo(at(8))
  expect(feed.after(at(6))).toBeUndefined()
  expect(feed.isBefore(at(6))).toBe(true)
  feed.add(change(at(9)))
  expect(feed.after(at(8))).toHaveLength(1)
})

test('a position from before a restored backup cannot be resumed', () => {
  const feed = newFeed({ seq: 2 })
  feed.skipTo({ restores: 1, term: 0, seq: 1, index: batchEnd })
  expect(feed.after(at(50))).toBeUndefined()
  expect(feed.after({ ...at(1), restores: 1 })).toEqual([])
})

test('isWrittenAfter returns true for a batch that a watcher has received only in part', () => {
  expect(isWrittenAfter(5, positionOf({ restores: 0, term: 0, seq: 5 }))).toBe(false)
  expect(isWrittenAfter(5, at(5, 2))).toBe(true)
  expect(isWrittenAfter(4, at(5, 2))).toBe(false)
  expect(isWrittenAfter(6, at(5))).toBe(true)
})

test('the feed keeps neither metadata nor checkpoint', () => {
  const feed = newFeed()
  feed.add(change(at(2), { metadata: '{"zone":"az-a"}', checkpoint: 'page 7' }))
  feed.add(change(at(3)))
  expect(feed.after(at(1))).toMatchObject([
    { hadTexts: true, change: { lease: { nodeId: 'a', metadata: '{}', checkpoint: '' } } },
    { hadTexts: false, change: { lease: { nodeId: 'a' } } },
  ])
})
