import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { answers, campaign, expectRefused, json, open, request, send } from '../attacks.ts'
import { serve } from '../service-under-test.ts'

let service: Awaited<ReturnType<typeof serve>>
let url: string
beforeAll(async () => {
  service = await serve({}, 'one')
  url = service.url
})
afterAll(() => service.close())

const path = '/v1/groups/g/campaign'
const host = () => `Host: ${new URL(url).host}`
const post = (...lines: string[]) => Buffer.from([`POST ${path} HTTP/1.1`, ...lines].join('\r\n'))
const chunked = (body: string) => `${Buffer.byteLength(body).toString(16)}\r\n${body}\r\n0\r\n\r\n`
const length = `Content-Length: ${campaign.length}`

describe('ambiguous requests', () => {
  test('well-formed requests with a length or with chunks are accepted', async () => {
    expect(await send(url, post(host(), json, length, '', campaign))).toMatchObject({ status: 200 })
    const inChunks = post(host(), json, 'Transfer-Encoding: chunked', '', chunked(campaign))
    expect(await send(url, inChunks)).toMatchObject({ status: 200 })
    const capital = post(host(), json, 'Transfer-Encoding: Chunked', '', chunked(campaign))
    expect(await send(url, capital)).toMatchObject({ status: 200 })
  })

  test.each([
    ['a length and chunks', () => post(host(), json, length, 'Transfer-Encoding: chunked', '', chunked(campaign))],
    ['two lengths that differ', () => post(host(), json, 'Content-Length: 5', length, '', campaign)],
    ['two lengths that agree', () => post(host(), json, length, length, '', campaign)],
    ['a list of lengths', () => post(host(), json, `Content-Length: ${campaign.length}, 5`, '', campaign)],
    ['a length with a sign', () => post(host(), json, `Content-Length: +${campaign.length}`, '', campaign)],
    ['a length in hexadecimal', () => post(host(), json, 'Content-Length: 0x20', '', campaign)],
    ['a length below zero', () => post(host(), json, 'Content-Length: -1', '', campaign)],
    ['identity and chunks', () => post(host(), json, 'Transfer-Encoding: identity, chunked', '', chunked(campaign))],
    ['gzip in chunks', () => post(host(), json, 'Transfer-Encoding: gzip, chunked', '', chunked(campaign))],
    [
      'chunked that is not the last encoding',
      () => post(host(), json, 'Transfer-Encoding: chunked, identity', '', chunked(campaign)),
    ],
    ['an unknown transfer encoding', () => post(host(), json, 'Transfer-Encoding: xchunked', '', chunked(campaign))],
    [
      'a transfer encoding twice',
      () => post(host(), json, 'Transfer-Encoding: chunked', 'Transfer-Encoding: chunked', '', chunked(campaign)),
    ],
    ['a space before the colon', () => post(host(), json, `Content-Length : ${campaign.length}`, '', campaign)],
    ['a folded header', () => post(host(), json, length, 'X-Folded: one', ' two', '', campaign)],
    ['a header that begins with a space', () => post(' X-First: one', host(), json, length, '', campaign)],
    [
      'lines that end with only a line feed',
      () => post(host(), json, length, '', campaign).toString().replaceAll('\r', ''),
    ],
    ['one line that ends with only a line feed', () => post(`${host()}\nX-Hidden: 1`, json, length, '', campaign)],
    ['a carriage return in a value', () => post(host(), json, length, 'X-Value: one\rtwo', '', campaign)],
    ['a NUL in a value', () => post(host(), json, length, 'X-Value: one\0two', '', campaign)],
    ['a header without a name', () => post(host(), json, length, ': nothing', '', campaign)],
    ['two hosts', () => post(host(), 'Host: elsewhere', json, length, '', campaign)],
    ['two hosts that agree', () => post(host(), host().toUpperCase(), json, length, '', campaign)],
    [
      'two authorization headers',
      () => post(host(), 'Authorization: a', 'authorization: b', json, length, '', campaign),
    ],
    ['two content types', () => post(host(), json, 'Content-Type: text/plain', length, '', campaign)],
    ['no host', () => post(json, length, '', campaign)],
    ['an empty host', () => post('Host:', json, length, '', campaign)],
    [
      'chunks in HTTP/1.0',
      () => post(host(), json, 'Transfer-Encoding: chunked', '', chunked(campaign)).toString().replace('1.1', '1.0'),
    ],
    ['a version that does not exist', () => post(host(), json, length, '', campaign).toString().replace('1.1', '1.9')],
    [
      'a chunk of impossible length',
      () => post(host(), json, 'Transfer-Encoding: chunked', '', 'fffffffffffffffff\r\nx'),
    ],
    ['a chunk whose length is a word', () => post(host(), json, 'Transfer-Encoding: chunked', '', 'xyz\r\nx')],
    [
      'bytes that are not HTTP',
      () => Buffer.from('\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 hello\r\n\r\n', 'latin1'),
    ],
  ])('an ambiguous request is refused: %s', async (_what, bytes) => {
    const socket = open(url)
    // A request that is hidden behind the ambiguous one must not be answered.
    socket.write(Buffer.concat([Buffer.from(bytes()), request(url, 'GET /healthz')]))
    const [first, second] = await answers(socket, 2)
    expectRefused(first, 400)
    expect(first?.headers.get('connection')).toBe('close')
    expect(second).toBeUndefined()
  })

  test('a body on a GET or DELETE request is refused', async () => {
    for (const line of ['GET /healthz', 'DELETE /v1/groups/g']) {
      const answer = await send(url, request(url, line, [], 'GET /smuggled HTTP/1.1\r\n\r\n'))
      expect(answer?.status, line).toBe(400)
    }
    expect(await send(url, request(url, 'GET /healthz', [], ''))).toMatchObject({ status: 200 })
  })

  test('a broken request after a complete one closes the connection without an answer to the first', async () => {
    const socket = open(url)
    const waits = JSON.stringify({ node_id: 'b', lease_ttl_ms: 5_000, wait_ms: 1_000 })
    await send(url, request(url, 'POST /v1/groups/taken/campaign', [json], campaign))
    socket.write(request(url, 'POST /v1/groups/taken/campaign', [json], waits))
    socket.write('this is broken\r\n\r\n')
    expect(await answers(socket, 1)).toEqual([])
  })
})

describe('header limits', () => {
  const many = (count: number) => Array.from({ length: count }, (_, index) => `X-${index}: 1`)

  test('a request with a hundred headers is accepted', async () => {
    expect(await send(url, request(url, 'GET /healthz', many(99)))).toMatchObject({ status: 200 })
  })

  test.each([101, 1_001, 1_500])(
    'a request with %i headers is refused, and no header is dropped silently',
    async (count) => {
      expectRefused(await send(url, request(url, 'GET /healthz', many(count - 1))), 431)
    },
  )

  test('a request with 15 kilobytes of headers is accepted, and one with 17 is refused', async () => {
    expect(await send(url, request(url, 'GET /healthz', [`X-Long: ${'x'.repeat(15_000)}`]))).toMatchObject({
      status: 200,
    })
    expectRefused(await send(url, request(url, 'GET /healthz', [`X-Long: ${'x'.repeat(17_000)}`])), 431)
    expectRefused(await send(url, request(url, `GET /healthz?${'x'.repeat(17_000)}`)), 431)
  })

  test('endless headers are cut off', async () => {
    const socket = open(url)
    socket.write(`GET /healthz HTTP/1.1\r\n${host()}\r\n`)
    const flood = setInterval(() => socket.write('X-More: and more\r\n'.repeat(100)), 1)
    try {
      expectRefused((await answers(socket, 1))[0], 431)
    } finally {
      clearInterval(flood)
    }
  })

  test.each([
    ['trailers', `${chunked(campaign).slice(0, -2)}${'X-Trailer: 1\r\n'.repeat(2_000)}\r\n`, 431],
    ['chunk extensions', `${campaign.length.toString(16)};${'x'.repeat(20_000)}\r\n${campaign}\r\n0\r\n\r\n`, 413],
  ])('a request with endless %s is refused', async (_where, body, status) => {
    expectRefused(await send(url, post(host(), json, 'Transfer-Encoding: chunked', '', body)), status)
  })
})
