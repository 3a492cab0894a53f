import { describe, expect, test } from 'vitest'
import { isValidNodeId, invisibleCharacter } from '../../src/common/checks.ts'
import { newFeed } from '../watch/new-feed.ts'
import { jsonType } from '../../src/http/request-head.ts'
import { isQuicklyParsed } from '../../src/http/body-scan.ts'
import { serve } from '../service-under-test.ts'

/**
 * The functions that read parts of a request. `pieces` are repeated to build a long input that ends without a match.
 */
const readers: Readonly<Record<string, { read(text: string): unknown; pieces: readonly string[] }>> = {
  'the check for invisible characters': {
    read: (text) => invisibleCharacter.test(text),
    pieces: ['a', ' ', 'é', '\ud800'],
  },
  'the check of a node id': { read: isValidNodeId, pieces: ['a', ' ', 'e\u0301', '\u0301\u0323', '\u1100\u1161'] },
  'the check of a content type': {
    read: (text) => [
      jsonType.test(text),
      jsonType.test(`application/json${text}`),
      jsonType.test(`application/json;${text}`),
    ],
    pieces: [' ', '\t ', 'a', '"', ' ;'],
  },
  'the parser of a cursor': { read: (text) => newFeed().find(text), pieces: ['0', '1.', 'a', '.', '9'] },
  'the check of the shape of a body': {
    read: (text) => isQuicklyParsed(Buffer.from(text)),
    pieces: ['"', '\\', '\\"', '"a",', '[]', '{}', ' '],
  },
}

/**
 * The time to read `count` pieces and ten times as many. Measures up to ten times, because a busy machine distorts
 * single measurements.
 */
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

// A quadratic reader takes a hundred times as long. Times below a millisecond are too short to compare.
const isLinear = ({ short, long }: { short: number; long: number }) => long < Math.max(2, 30 * short)

describe.each(Object.entries(readers))('%s', (_what, { read, pieces }) => {
  test.each(pieces)('reading takes linear time for input made of %j', (piece) => {
    expect(timesMs(read, piece, 10_000)).toSatisfy(isLinear)
  })
})

test('every pattern in the OpenAPI document takes linear time', async () => {
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

test('the check for linear time rejects a quadratic pattern', () => {
  expect(lookMs((text) => /a+x/.test(text), 'a', 1_500)).not.toSatisfy(isLinear)
})
