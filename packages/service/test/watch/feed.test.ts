import { describe, expect, test } from 'vitest'
import { Feed, type Change } from '../../src/watch/feed.ts'
import { sampleLease } from '../sample-lease.ts'

const change = (texts: object = {}): Change => ({
  type: 'LEADER_CHANGED',
  groupId: 'jobs',
  lease: { ...sampleLease, ...texts },
  atMs: 0,
})

describe('a cursor', () => {
  test('names a position, and does not show it', () => {
    const feed = new Feed('0123456789abcdef')
    const before = feed.cursorAt(0)
    const cursors = Array.from({ length: 200 }, () => feed.cursorAt(feed.add(change()).position))
    expect(feed.find(before)).toBe(0)
    expect(cursors.map((cursor) => feed.find(cursor))).toEqual(cursors.map((_, index) => index + 1))
    // Of one length, and with nothing in common but the name of the feed.
    expect(new Set(cursors.map(({ length }) => length)).size).toBe(1)
    expect(new Set(cursors.map((cursor) => cursor.slice(17, 29))).size).toBe(200)
  })

  test('that was made up is refused', () => {
    const feed = new Feed('0123456789abcdef')
    feed.add(change())
    const cursor = feed.cursorAt(1)
    const other = (letter: string) => (letter === 'A' ? 'B' : 'A')
    for (const text of [
      cursor.slice(0, -1),
      `${cursor}A`,
      cursor.replace(/.(?=.{20}$)/, other),
      '0123456789abcdef.1',
    ]) {
      expect(feed.find(text), text).toBeUndefined()
    }
  })

  test('of another run, or of the version before, is one behind a gap', () => {
    const feed = new Feed('0123456789abcdef')
    expect(feed.find(new Feed('fedcba9876543210').cursorAt(0))).toBe('gap')
    expect(feed.find('fedcba9876543210.17')).toBe('gap')
  })
})

test('what is kept holds neither metadata nor carry', () => {
  const feed = new Feed('0123456789abcdef')
  feed.add(change({ metadata: '{"zone":"az-a"}', carry: 'page 7' }))
  feed.add(change())
  expect(feed.after(0)).toMatchObject([
    { hadTexts: true, change: { lease: { nodeId: 'a', metadata: '{}', carry: '' } } },
    { hadTexts: false, change: { lease: { nodeId: 'a' } } },
  ])
})
