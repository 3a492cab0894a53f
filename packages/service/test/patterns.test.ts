import { describe, expect, test } from 'vitest'
import { isSoundNodeId, unseenCharacter } from '../src/checks.ts'
import { newFeed } from './watch/new-feed.ts'
import { jsonType } from '../src/http/head.ts'
import { isQuicklyParsed } from '../src/http/json.ts'
import { serve } from './served.ts'

/** What is read from a request, each with pieces of which a long input may be made, and an end that does not match. */
const readers: Readonly<Record<string, { read(text: string): unknown; pieces: readonly string[] }>> = {
  'what cannot be seen': { read: (text) => unseenCharacter.test(text), pieces: ['a', ' ', 'é', '\ud800'] },
  'the id of a node': { read: isSoundNodeId, pieces: ['a', ' ', 'e\u0301', '\u0301\u0323', '\u1100\u1161'] },
  'the type of a body': {
    read: (text) => [
      jsonType.test(text),
      jsonType.test(`application/json${text}`),
      jsonType.test(`application/json;${text}`),
    ],
    pieces: [' ', '\t ', 'a', '"', ' ;'],
  },
  'a cursor': { read: (text) => newFeed().find(text), pieces: ['0', '1.', 'a', '.', '9'] },
  'the shape of a body': {
    read: (text) => isQuicklyParsed(Buffer.from(text)),
    pieces: ['"', '\\', '\\"', '"a",', '[]', '{}', ' '],
  },
}

/** What it takes to read so many pieces, and ten times as many. A machine that is busy may need several looks to tell. */
function timesMs(read: (text: string) => unknown, piece: string, count: number): { short: number; long: number } {
  let times = lookMs(read, piece, count)
  for (let look = 1; look < 10 && !isLinear(times); look += 1) times = lookMs(read, piece, count)
  return times
}

function lookMs(read: (text: string) => unknown, piece: string, count: number): { short: number; long: number } {
  const fastest = (text: string) => {
    let best = Infinity
    for (let round = 0; round < 5; round++) {
      const startedMs = performance.now()
      read(text)
      best = Math.min(best, performance.now() - startedMs)
    }
    return best
  }
  fastest(`${piece.repeat(count)}!`)
  return { short: fastest(`${piece.repeat(count)}!`), long: fastest(`${piece.repeat(10 * count)}!`) }
}

// One that is quadratic takes a hundred times as long. Below a millisecond no clock tells.
const isLinear = ({ short, long }: { short: number; long: number }) => long < Math.max(2, 30 * short)

describe.each(Object.entries(readers))('%s', (_what, { read, pieces }) => {
  test.each(pieces)('takes ten times as long to read for ten times as many of %j', (piece) => {
    expect(timesMs(read, piece, 10_000)).toSatisfy(isLinear)
  })
})

test('every pattern in the document of the service takes ten times as long for ten times as much', async () => {
  const service = await serve()
  const text = await (await fetch(`${service.url}/openapi.json`)).text()
  await service.close()
  const patterns = new Set<string>()
  JSON.parse(text, (key: string, value: unknown) => {
    if (key === 'pattern' && typeof value === 'string') patterns.add(value)
    return value
  })
  expect(patterns.size).toBeGreaterThan(1)
  for (const pattern of patterns) {
    const expression = new RegExp(pattern, 'u')
    for (const piece of ['a', '0', '1', '.', '-', ' ', ',', 'a.', 'a,', ',,', 'a-']) {
      const times = timesMs((input) => expression.test(input), piece, 10_000)
      expect(times, `${pattern} of ${piece}`).toSatisfy(isLinear)
    }
  }
})

test('this test knows a pattern that is not linear', () => {
  expect(lookMs((text) => /a+x/.test(text), 'a', 1_500)).not.toSatisfy(isLinear)
})
