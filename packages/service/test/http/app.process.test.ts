import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { answers, campaign, expectRefused, json, open, request, send, type Answer } from '../attacks.ts'
import { serve } from '../service-under-test.ts'

let service: Awaited<ReturnType<typeof serve>>
let url: string
let port: string
beforeAll(async () => {
  service = await serve({}, 'one')
  url = service.url
  port = new URL(url).port
  await send(url, request(url, 'POST /v1/groups/led/campaign', [json], forLong))
})
afterAll(() => service.close())

const forLong = JSON.stringify({ node_id: 'a', lease_ttl_ms: 3_600_000 })
const ask = (line: string, ...headers: string[]) => send(url, request(url, line, headers))

describe('request paths', () => {
  test.each([
    'http://127.0.0.1/healthz',
    'http://elsewhere/v1/groups/led/leader',
    'https://elsewhere/../../healthz',
    '*',
  ])('the request target %s is refused', async (target) => {
    expectRefused(await ask(`GET ${target}`), 400)
  })

  test.each([
    '//healthz',
    '/healthz/',
    '/HEALTHZ',
    '/v1//groups',
    '/v1/groups/',
    '//v1/groups/led/leader',
    '/v1/groups/led//leader',
    '/v1/groups/led/leader/',
    '/v1/groups/led%2fleader',
    '/v1/../healthz',
    '/./healthz',
    '/healthz/../metrics',
    '/healthz;/../metrics',
    '/healthz%00',
    '/healthz%2f..%2fmetrics',
    '/v1/groups/..%2f..%2fhealthz/leader',
    '/%2e%2e/healthz',
    '/%2fhealthz',
    '/healthz%zz',
    '/\\healthz',
  ])('the path %s is not normalized and does not exist', async (path) => {
    expectRefused(await ask(`GET ${path}`), 400, 404)
  })

  test('a path is decoded only once', async () => {
    expect(await ask('GET /v1/groups/%6ced/leader')).toMatchObject({ status: 200, body: { leader: { node_id: 'a' } } })
    expectRefused(await ask('GET /v1/groups/%256ced/leader'), 400)
  })
})

describe('request methods', () => {
  test('a request with a method that its path does not support gets 405 and the allowed methods', async () => {
    for (const method of ['DELETE', 'OPTIONS', 'TRACE', 'QUERY']) {
      const answer = await ask(`${method} /v1/groups/led/leader`, json)
      expectRefused(answer, 405)
      expect(answer?.headers.get('allow')).toBe('GET, HEAD')
    }
    const posted = await send(url, request(url, 'POST /v1/groups/led/leader', [json], '{}'))
    expectRefused(posted, 405)
    expectRefused(await ask('GET /v1/groups/led/campaign'), 405)
  })

  test('an unknown method is refused', async () => {
    expectRefused(await ask('PROPFIND /v1/groups'), 404)
    expectRefused(await ask('GARBAGE /v1/groups'), 400)
    expectRefused(await ask('get /healthz'), 400)
    // A CONNECT request gets no response.
    expect(await ask('CONNECT 127.0.0.1:22')).toBeUndefined()
  })

  test('a header cannot override the method', async () => {
    for (const header of ['X-HTTP-Method-Override', 'X-HTTP-Method', 'X-Method-Override', '_method']) {
      const answer = await ask('GET /v1/groups/led', `${header}: DELETE`)
      expect(answer).toMatchObject({ status: 200, body: { group: { leader: { node_id: 'a' } } } })
    }
    const query = await ask('GET /v1/groups/led?_method=DELETE&force=true')
    expect(query).toMatchObject({ status: 200, body: { group: { leader: { node_id: 'a' } } } })
  })

  test('HEAD gets the response of a GET without its body, and is refused for a stream', async () => {
    const socket = open(url)
    socket.write(request(url, 'HEAD /v1/groups/led/leader', ['Connection: close']))
    const text = await new Promise<string>((resolve) => {
      let received = ''
      socket.on('data', (chunk) => (received += chunk.toString()))
      socket.once('close', () => resolve(received))
    })
    expect(text).toMatch(/^HTTP\/1\.1 200 OK\r\n/)
    expect(text).toMatch(/\r\n\r\n$/)
    const stream = open(url)
    stream.write(request(url, 'HEAD /v1/groups/led/watch', ['Accept: text/event-stream', 'Connection: close']))
    const head = await new Promise<string>((resolve) => stream.once('data', (chunk) => resolve(chunk.toString())))
    expect(head).toMatch(/^HTTP\/1\.1 405 /)
    stream.destroy()
  })

  test('an upgrade to another protocol is ignored', async () => {
    const headers = [
      'Connection: Upgrade',
      'Upgrade: websocket',
      'Sec-WebSocket-Version: 13',
      'Sec-WebSocket-Key: AA==',
    ]
    expect(await ask('GET /healthz', ...headers)).toMatchObject({ status: 200 })
    expect(await ask('GET /healthz', 'Connection: Upgrade, HTTP2-Settings', 'Upgrade: h2c')).toMatchObject({
      status: 200,
    })
    expectRefused(await ask('GET /healthz', 'Expect: something'), 417)
    expect((await ask('GET /healthz', 'Expect: 100-continue'))?.status).toBe(100)
  })
})

describe('browsers and hosts without authentication', () => {
  const raw = (host: string, line = 'GET /v1/groups', ...headers: string[]) =>
    send(url, [`${line} HTTP/1.1`, `Host: ${host}`, ...headers, '', ''].join('\r\n'))

  test.each(['127.0.0.1', 'localhost', 'LOCALHOST', '[::1]'])(
    'a request to the host %s is answered without authentication',
    async (host) => {
      expect(await raw(`${host}:${port}`)).toMatchObject({ status: 200 })
      expect(await raw(host)).toMatchObject({ status: 200 })
    },
  )

  test.each([
    'evil.example',
    'localhost.evil.example',
    '127.0.0.1.evil.example',
    'evil.example:80@127.0.0.1',
    '127.0.0.1@evil.example',
    'localhost,evil.example',
    '127.0.0.2',
    '0.0.0.0',
    '[::]',
    '[::1].evil.example',
    '[::1',
    '2130706433',
    ':80',
  ])('a request to the host %s is refused without authentication', async (host) => {
    expectRefused(await raw(host), 400, 403)
    expectRefused(await raw(`${host}:${port}`), 400, 403)
    expectRefused(await raw(host, 'GET /healthz'), 400, 403)
  })

  test('only the configured host is answered when allowedHosts is set', async () => {
    const other = await serve({ allowedHosts: ['elections.example'] })
    onTestFinished(() => other.close())
    const as = (host: string) => send(other.url, `GET /healthz HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
    expect(await as('elections.example')).toMatchObject({ status: 200 })
    expect(await as('Elections.Example:443')).toMatchObject({ status: 200 })
    expectRefused(await as('127.0.0.1'), 403)
  })

  test.each([
    ['evil.example', 'http://evil.example'],
    ['a file', 'null'],
    ['another port', 'http://127.0.0.1:3000'],
    ['an invalid origin', 'nonsense'],
    ['a longer name', 'http://127.0.0.1.evil.example'],
  ])('a page from %s cannot change anything', async (_what, origin) => {
    const lines: [string, string?][] = [
      ['POST /v1/groups/led/resign', '{"node_id":"a","term":1}'],
      ['PUT /v1/groups/led', '{}'],
      ['DELETE /v1/groups/led?force=true'],
    ]
    for (const [line, body] of lines) {
      const headers = [`Origin: ${origin}`, ...(body ? [json] : [])]
      expectRefused(await send(url, request(url, line, headers, body)), 403)
    }
    expect(await ask('GET /v1/groups/led/leader')).toMatchObject({ body: { leader: { node_id: 'a', term: 1 } } })
  })

  test('a page from the origin of the service can campaign', async () => {
    const headers = [json, `Origin: ${url}`]
    const answer = await send(url, request(url, 'POST /v1/groups/own/campaign', headers, campaign))
    expect(answer).toMatchObject({ status: 200, body: { is_leader: true } })
  })

  test('no response allows a page from another origin to read it', async () => {
    const origin = 'Origin: http://evil.example'
    const preflight = ['Access-Control-Request-Method: POST', 'Access-Control-Request-Headers: content-type']
    const seen: (Answer | undefined)[] = [
      await ask('GET /v1/groups', origin),
      await ask('GET /v1/groups/led/watch', origin),
      await ask('OPTIONS /v1/groups/led/resign', origin, ...preflight),
      await ask('GET /nowhere', origin),
    ]
    for (const answer of seen) {
      const allowed = [...(answer?.headers.keys() ?? [])].filter((name) => name.startsWith('access-control-'))
      expect(allowed).toEqual([])
    }
    expect(seen[2]?.status).toBeGreaterThanOrEqual(400)
  })
})

describe('responses', () => {
  test('an error response neither repeats markup from the path nor names the server software', async () => {
    const answers = [
      await ask('GET /nowhere/<script>'),
      await ask(`GET /v1/groups/${'%zz'}/leader`),
      await ask('GET /v1/groups?limit=-1'),
      await ask('GET /v1/groups?limit[]=1'),
      await ask('GET /v1/groups?limit=1&limit=2'),
      await ask('GET /v1/groups?__proto__[admin]=1'),
      await send(url, request(url, 'POST /v1/groups/led/renew', [json], '{"node_id":"a","term":"1"}')),
      await send(url, request(url, 'POST /v1/groups/led/renew', [json], 'not json')),
    ]
    for (const answer of answers) {
      expectRefused(answer, 400, 404)
      expect(answer?.text).not.toContain('<script>')
      expect(answer?.headers.has('server')).toBe(false)
      expect(answer?.headers.has('x-powered-by')).toBe(false)
    }
  })

  test('request ids are random, so that nobody can count the requests from others', async () => {
    const ids: unknown[] = []
    for (let count = 0; count < 5; count += 1) {
      const answer = await fetch(`${url}/nowhere`)
      ids.push(((await answer.json()) as Record<string, unknown>)['request_id'])
    }
    for (const id of ids) expect(id).toMatch(/^[\da-f]{8}-[\da-f]{4}-4[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/)
    expect(new Set(ids.map((id) => String(id).slice(0, 8))).size).toBe(5)
  })

  test('no JSON response may be cached, whether it is a result, a poll, or an error', async () => {
    const answers = [
      await ask('GET /v1/groups'),
      await ask('GET /v1/groups/led/leader'),
      await ask('GET /v1/groups/led/members'),
      await ask('GET /v1/groups/led/watch'),
      await ask('GET /openapi.json'),
      await ask('GET /nowhere'),
      await ask('DELETE /healthz'),
      await ask('GET /v1/groups/%zz/leader'),
      await ask('GET /v1/groups', 'expect: magic'),
      await send(url, 'no HTTP\r\n\r\n'),
    ]
    for (const answer of answers) {
      expect(answer?.headers.get('content-type')).toContain('application/json')
      expect(answer?.headers.get('cache-control'), answer?.text).toBe('no-store')
    }
    expect((await ask('GET /'))?.headers.get('cache-control')).toBe('no-cache')
  })

  test('the metrics do not grow with unknown paths, methods, and groups', async () => {
    const labels = async () => {
      const text = await (await fetch(`${url}/metrics`)).text()
      return text.split('\n').filter((line) => line.startsWith('tenure_request'))
    }
    for (const status of [200, 404]) await ask(status === 200 ? 'GET /v1/groups/led/leader' : 'GET /unknown-path-0')
    await ask('PROPFIND /unknown-path-0')
    await ask('GET /v1/groups/unknown-group-0/leader')
    await labels()
    const before = await labels()
    for (let index = 1; index <= 50; index++) {
      await ask(`GET /unknown-path-${index}`)
      await ask(`PROPFIND /unknown-path-${index}`)
      await ask(`GET /v1/groups/unknown-group-${index}/leader`)
    }
    const after = await labels()
    expect(before.length).toBeGreaterThan(0)
    expect(after).toHaveLength(before.length)
    expect(after.join('\n')).not.toMatch(/unknown/)
  })

  test('pipelined requests are answered in order, up to a bound', async () => {
    const few = open(url)
    few.write(Buffer.concat(Array.from({ length: 200 }, () => request(url, 'GET /v1/groups/led/leader'))))
    expect((await answers(few, 200)).map(({ status }) => status)).toEqual(Array.from({ length: 200 }, () => 200))
    const many = open(url)
    const waits = JSON.stringify({ node_id: 'b', lease_ttl_ms: 5_000, wait_ms: 3_000 })
    many.write(
      Buffer.concat(Array.from({ length: 300 }, () => request(url, 'POST /v1/groups/led/campaign', [json], waits))),
    )
    const received = await answers(many, 300)
    expectRefused(received.at(-1), 429)
    expect(received).toHaveLength(257)
  })
})
