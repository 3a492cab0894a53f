import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Answer, answers, campaign, expectRefused, json, open, renewing, request, send } from '../attacks.ts'
import { serve } from '../service-under-test.ts'

let service: Awaited<ReturnType<typeof serve>>
let url: string
beforeAll(async () => {
  service = await serve({}, 'one')
  url = service.url
})
afterAll(() => service.close())

let groups = 0
const post = (body: string | Buffer, ...headers: string[]) =>
  send(url, request(url, `POST /v1/groups/body-${++groups}/campaign`, headers.length > 0 ? headers : [json], body))
const batch = (body: string | Buffer) => send(url, request(url, 'POST /v1/renew', [json], body))
const withMetadata = (metadata: string) => `{"node_id":"a","lease_ttl_ms":5000,"metadata":${metadata}}`
const megabyte = 2 ** 20

describe('request bodies', () => {
  test('a body of an allowed size is read', async () => {
    expect(await post(campaign)).toMatchObject({ status: 200 })
    expect(await post(campaign + ' '.repeat(65_536 - campaign.length))).toMatchObject({ status: 200 })
  })

  test('a body whose Content-Length is too large is refused before it is sent', async () => {
    const socket = open(url)
    socket.write(request(url, 'POST /v1/groups/large/campaign', [json, 'Content-Length: 65537']))
    expectRefused((await answers(socket, 1))[0], 413)
    const huge = open(url)
    huge.write(request(url, 'POST /v1/renew', [json, `Content-Length: ${2 ** 40}`]))
    expectRefused((await answers(huge, 1))[0], 413)
  })

  test.each([
    ['POST /v1/groups/endless/campaign', 65_536],
    ['POST /v1/renew', 4 * megabyte],
  ])('an endless chunked body is cut off: %s', async (line, limit) => {
    const socket = open(url)
    const chunk = `1000\r\n${' '.repeat(4_096)}\r\n`
    let sent = 0
    socket.write(request(url, line, [json, 'Transfer-Encoding: chunked']))
    const flood = setInterval(() => {
      for (let index = 0; index < 16 && sent < 64 * megabyte; index++) {
        socket.write(chunk)
        sent += 4_096
      }
    }, 1)
    try {
      expectRefused((await answers(socket, 1))[0], 413)
    } finally {
      clearInterval(flood)
    }
    expect(sent).toBeLessThan(limit + 16 * megabyte)
  })

  test('a body with another type, charset, or encoding is refused', async () => {
    for (const type of [
      'application/json',
      'application/json; charset=utf-8',
      'application/json;charset="UTF-8"',
      'APPLICATION/JSON ; charset=utf-8',
    ]) {
      expect(await post(campaign, `Content-Type: ${type}`), type).toMatchObject({ status: 200 })
    }
    for (const type of [
      'text/plain',
      'text/json',
      'application/x-www-form-urlencoded',
      'multipart/form-data; boundary=x',
      'application/json; charset=utf-16',
      'application/json; charset=latin1',
      'application/json; charset=utf-8; charset=utf-16',
      'application/jsonp',
      'application/json/x',
      'application/merge-patch+json',
      'text/plain; application/json',
      'application/json, text/plain',
      '',
    ]) {
      expectRefused(await post(campaign, `Content-Type: ${type}`), 415)
    }
    expectRefused(await send(url, request(url, 'POST /v1/groups/untyped/campaign', [], campaign)), 415)
    expectRefused(await send(url, request(url, 'POST /v1/groups/untyped/campaign')), 415)
    expectRefused(await send(url, request(url, 'PUT /v1/groups/untyped')), 415)
  })

  test('a compressed body is refused, whatever its content', async () => {
    const bomb = gzipSync(Buffer.alloc(10 * megabyte, ' '))
    for (const encoding of ['gzip', 'deflate', 'br', 'zstd', 'identity, gzip', 'compress']) {
      expectRefused(await post(bomb, json, `Content-Encoding: ${encoding}`), 415)
    }
    expect(await post(campaign, json, 'Content-Encoding: identity')).toMatchObject({ status: 200 })
  })

  test.each([
    ['no bytes', ''],
    ['spaces', '   '],
    ['half of an object', '{"node_id":"a"'],
    ['two objects', `${campaign}${campaign}`],
    ['a list', '[]'],
    ['null', 'null'],
    ['a number', '1'],
    ['a string', '"a"'],
    ['an endless number', `{"node_id":"a","lease_ttl_ms":${'9'.repeat(60_000)}}`],
    ['NaN', '{"node_id":"a","lease_ttl_ms":NaN}'],
    ['a comment', '{"node_id":"a",/**/"lease_ttl_ms":5000}'],
    ['a NUL', `${campaign}\0`],
    ['bytes that are not UTF-8', Buffer.from('{"node_id":"\xff\xfe","lease_ttl_ms":5000}', 'latin1')],
    ['an overlong slash', Buffer.from('{"node_id":"\xc0\xaf","lease_ttl_ms":5000}', 'latin1')],
    ['UTF-16', Buffer.from(campaign, 'utf16le')],
    ['a key twice', '{"node_id":"a","lease_ttl_ms":5000,"node_id":"b"}'],
    ['a key twice in two spellings', '{"node_id":"a","lease_ttl_ms":5000,"node\\u005fid":"b"}'],
    ['a nested key twice', '{"node_id":"a","lease_ttl_ms":5000,"metadata":{"a":[{"b":1,"b":2}]}}'],
    ['half of a surrogate pair', '{"node_id":"\\ud800","lease_ttl_ms":5000}'],
  ])('a body is refused: %s', async (_what, body) => {
    expectRefused(await post(body), 400)
  })
})

describe('expensive bodies', () => {
  /**
   * Returns the duration of the slowest renewal while a batch is processed. The best of a few rounds is used, because
   * the machine may be busy.
   */
  async function besideMs(group: string, body: string, check: (answer: Answer | undefined) => void): Promise<number> {
    const leader = await renewing(url, group)
    const rounds: number[] = []
    for (let round = 0; round < 4; round++) {
      await leader.slowestMs()
      check(await batch(body))
      rounds.push(await leader.slowestMs())
    }
    await leader.stop()
    return Math.min(...rounds)
  }

  let soundMs = 0
  beforeAll(async () => {
    const renewals = Array.from({ length: 20_000 }, (_, at) => ({ group_id: `g${at}`, term: 1, extend_by_ms: 1_000 }))
    soundMs = await besideMs('sound', JSON.stringify({ node_id: 'a', renewals }), (answer) => {
      expect(answer).toMatchObject({ status: 200 })
      expect(answer?.body['results']).toHaveLength(20_000)
    })
  })

  const manyKeys = Array.from({ length: 420_000 }, (_, index) => `"${index.toString(36)}":1`).join(',')

  test.each([
    ['two million brackets', '['.repeat(4 * megabyte)],
    ['a million lists within lists', '['.repeat(2 * megabyte - 8) + ']'.repeat(2 * megabyte - 8)],
    ['700,000 objects within objects', '{"a":'.repeat(690_000) + '1' + '}'.repeat(690_000)],
    ['420,000 keys', `{${manyKeys}}`],
    ['1,300,000 objects', `{"node_id":"a","renewals":[${'{},'.repeat(1_300_000)}{}]}`],
    ['two million numbers', `{"node_id":"a","renewals":[${'1,'.repeat(2_000_000)}1]}`],
    ['four million digits', `{"node_id":"a","renewals":${'9'.repeat(4_000_000)}}`],
    ['four million blanks', `{"node_id":"a"${' '.repeat(4_000_000)}}`],
    ['a million escapes', `{"node_id":"${'\\u0061'.repeat(690_000)}","renewals":[]}`],
    ['quotes that never close', `{"node_id":"${'\\"'.repeat(2_000_000)}`],
    ['names of prototypes', `{"node_id":"a","renewals":[${'"__proto__" ,'.repeat(300_000)}1]}`],
  ])('a body of %s stalls the service less than a valid batch', async (what, body) => {
    expect(Buffer.byteLength(body)).toBeLessThanOrEqual(4 * megabyte)
    const group = what.replaceAll(/[ ,]/g, '-')
    const tookMs = await besideMs(group, body, (answer) => expectRefused(answer, 400))
    expect(tookMs).toBeLessThan(Math.max(200, 2 * soundMs))
  })
})

describe('prototype pollution', () => {
  test.each([
    ['__proto__ in the body', '{"node_id":"a","lease_ttl_ms":5000,"__proto__":{"admin":true}}'],
    ['constructor in the body', '{"node_id":"a","lease_ttl_ms":5000,"constructor":{"prototype":{"admin":true}}}'],
    ['__proto__ in metadata', withMetadata('{"__proto__":{"admin":true}}')],
    ['an escaped __proto__', withMetadata('{"\\u005f_proto__":{"admin":true}}')],
    ['__proto__ in a nested object', withMetadata('{"a":{"b":[{"__proto__":{"admin":true}}]}}')],
    ['__proto__ that is not an object', withMetadata('{"__proto__":1}')],
    ['constructor in metadata', withMetadata('{"constructor":{"prototype":{"admin":true}}}')],
    ['constructor in a nested object', withMetadata('{"a":[{"constructor":{}}]}')],
    ['prototype', withMetadata('{"prototype":{"admin":true}}')],
  ])('a body with %s is refused', async (_what, body) => {
    expectRefused(await post(body), 400)
    expect(({} as { admin?: boolean }).admin).toBeUndefined()
  })

  test('metadata with harmless keys of Object.prototype is shown unchanged', async () => {
    const metadata = {
      proto: 1,
      constructor: 'x',
      toString: 'x',
      hasOwnProperty: { valueOf: null },
      text: '</script>\u2028',
    }
    const group = `body-${groups + 1}`
    expect(await post(withMetadata(JSON.stringify(metadata)))).toMatchObject({ status: 200 })
    const shown = await send(url, request(url, `GET /v1/groups/${group}/leader`))
    expect(shown?.body['leader']).toMatchObject({ metadata })
  })
})
