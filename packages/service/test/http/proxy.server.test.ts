import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { pathOf } from '../../../../test/servers/find-program.ts'
import { freePort } from '../../../../test/servers/free-port.ts'
import { end } from '../../../../test/servers/process.ts'
import { programs } from '../../../../test/servers/programs.ts'
import { describeWithPrograms } from '../../../../test/servers/suite.ts'
import { answers, campaign, json, open, request, send } from '../attacks.ts'
import { serve } from '../service-under-test.ts'

/** A proxy that denies access to one group, and shares its connections to the service among all clients. */
const configuration = (port: number, service: string) => `
defaults
  mode http
  timeout connect 2s
  timeout client 5s
  timeout server 5s
frontend clients
  bind 127.0.0.1:${port}
  http-request deny if { path_beg /v1/groups/secret }
  default_backend service
backend service
  http-reuse always
  server only ${service} maxconn 2
`

describeWithPrograms([programs.haproxy], 'behind HAProxy', () => {
  let service: Awaited<ReturnType<typeof serve>>
  let proxy: string
  let stop: () => Promise<void>
  beforeAll(async () => {
    service = await serve()
    const directory = mkdtempSync(join(tmpdir(), 'tenure-haproxy-'))
    const port = await freePort()
    const file = join(directory, 'haproxy.cfg')
    writeFileSync(file, configuration(port, new URL(service.url).host))
    const child = spawn(pathOf(programs.haproxy), ['-db', '-q', '-f', file], { stdio: 'ignore' })
    stop = async () => {
      await end(child, 'SIGTERM')
      rmSync(directory, { recursive: true })
      await service.close()
    }
    proxy = `http://127.0.0.1:${port}`
    const isUp = async () => (await send(proxy, request(proxy, 'GET /healthz')))?.status === 200
    await vi.waitUntil(isUp, { timeout: 10_000 })
  })
  afterAll(() => stop())

  const secret = () => send(service.url, request(service.url, 'GET /v1/groups/secret/leader'))

  test('the service works behind the proxy, and the denied group is out of reach', async () => {
    const open = await send(proxy, request(proxy, 'POST /v1/groups/open/campaign', [json], campaign))
    expect(open).toMatchObject({ status: 200, body: { is_leader: true } })
    const denied = await send(proxy, request(proxy, 'POST /v1/groups/secret/campaign', [json], campaign))
    expect(denied).toMatchObject({ status: 403 })
    expect(await secret()).toMatchObject({ body: { leader: null } })
  })

  const hidden = () => request(proxy, 'POST /v1/groups/secret/campaign', [json], campaign).toString()
  const chunks = () => `0\r\n\r\n${hidden()}`
  const outer = (...lines: string[]) =>
    ['POST /v1/groups/open/campaign HTTP/1.1', 'Host: 127.0.0.1', json, ...lines].join('\r\n')
  const sized = (text: string) => `Content-Length: ${Buffer.byteLength(text)}`

  test.each([
    ['a length and chunks', () => outer(sized(chunks()), 'Transfer-Encoding: chunked', '', chunks())],
    ['chunks and a length', () => outer('Transfer-Encoding: chunked', sized(chunks()), '', chunks())],
    ['a length and a space before chunked', () => outer(sized(chunks()), 'Transfer-Encoding : chunked', '', chunks())],
    ['a length and a tab before chunked', () => outer(sized(chunks()), 'Transfer-Encoding:\tchunked', '', chunks())],
    ['a length and a vertical tab', () => outer(sized(chunks()), 'Transfer-Encoding: \x0bchunked', '', chunks())],
    [
      'a length and an unknown transfer encoding',
      () => outer(sized(chunks()), 'Transfer-Encoding: xchunked', '', chunks()),
    ],
    [
      'a length and chunks in a list',
      () => outer(sized(chunks()), 'Transfer-Encoding: identity, chunked', '', chunks()),
    ],
    [
      'a length and chunks on a second line',
      () => outer(sized(chunks()), 'X: y', ' Transfer-Encoding: chunked', '', chunks()),
    ],
    ['a length and a bare line feed', () => outer(sized(chunks()), 'X: y\nTransfer-Encoding: chunked', '', chunks())],
    ['two transfer encodings', () => outer('Transfer-Encoding: chunked', 'Transfer-Encoding: identity', '', chunks())],
    ['two lengths', () => outer('Content-Length: 0', sized(hidden()), '', hidden())],
    ['a list of lengths', () => outer(`Content-Length: 0, ${hidden().length}`, '', hidden())],
    ['a GET with a body', () => `GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n${sized(hidden())}\r\n\r\n${hidden()}`],
    ['HTTP/1.0 in chunks', () => outer('Transfer-Encoding: chunked', '', chunks()).replace('HTTP/1.1', 'HTTP/1.0')],
    ['a line break in the path', () => hidden().replace('/v1/groups/secret', '/healthz%0d%0a/v1/groups/secret')],
    ['an encoded path', () => hidden().replace('secret', '..%2f..%2fgroups%2fsecret')],
    ['an absolute target', () => hidden().replace('POST ', 'POST http://127.0.0.1/x/..')],
    ['two slashes', () => hidden().replace('/v1', '//v1')],
    ['a chunk with an ambiguous length', () => outer('Transfer-Encoding: chunked', '', `0x0\r\n\r\n${hidden()}`)],
    ['a chunk that ends with a line feed', () => outer('Transfer-Encoding: chunked', '', `0\n\n${hidden()}`)],
  ])('a request with %s neither bypasses the proxy nor gets the answer for another client', async (_what, bytes) => {
    const attacker = open(proxy)
    attacker.write(bytes())
    const meanwhile = Array.from({ length: 8 }, async (_, at) => {
      const answer = await send(proxy, request(proxy, `GET /v1/groups/mine-${at}/members`))
      return answer?.body['message']
    })
    expect(await Promise.all(meanwhile)).toEqual(meanwhile.map((_, at) => `Group "mine-${at}" does not exist.`))
    attacker.end()
    for (const { status, body } of await answers(attacker, 3)) {
      if (status === 200) expect(body['leader']).toMatchObject({ node_id: 'a' })
    }
    expect(await secret()).toMatchObject({ status: 200, body: { leader: null, highest_term: 0 } })
  })
})
