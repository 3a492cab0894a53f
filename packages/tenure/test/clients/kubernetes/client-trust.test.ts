import { Agent } from 'node:https'
import type { LookupFunction } from 'node:net'
import { inspect } from 'node:util'
import { describe, expect, test, vi } from 'vitest'
import { makeCertificate } from '../../kubernetes/certificate.ts'
import { answerOf, chunkedHead, clientFor, connectionTo, secret, serve } from './tls-server.ts'

const { signal } = new AbortController()
const get = { method: 'GET', path: '/a', signal, timeoutMs: 5_000 } as const
const soon = { timeout: 5_000, interval: 5 }

async function failure(promise: Promise<unknown>): Promise<Error> {
  return promise.then(
    () => expect.unreachable(),
    (error: Error) => error,
  )
}

describe('servers that cannot be trusted', () => {
  const cases = {
    'a certificate issued by an authority that is not trusted': {
      certificate: makeCertificate(),
      trusted: makeCertificate(),
      says: /certificate/,
    },
    'a certificate for another name': {
      certificate: makeCertificate({ names: ['api.example.test'] }),
      says: /127\.0\.0\.1/,
    },
    'an expired certificate': {
      certificate: makeCertificate({ endsMs: Date.now() - 60_000 }),
      says: /expired/,
    },
  }
  test.each(Object.entries(cases))(
    'the client sends nothing to a server with %s',
    async (_name, { certificate, says, ...rest }) => {
      const server = await serve(({ socket }) => socket.write(answerOf({})), { certificate })
      const client = clientFor(connectionTo(server.url, 'trusted' in rest ? rest.trusted : certificate))
      for (const call of [client.request(get), client.watch({ path: '/a', signal, silenceMs: () => 1_000 }).next()]) {
        const error = await failure(call)
        expect(error).toMatchObject({ code: 'BACKEND_UNAVAILABLE', retryable: true })
        expect(error.message).toMatch(says)
      }
      await vi.waitUntil(() => server.sockets.size === 0, soon)
      expect(server.opened).toBe(2)
      expect(server.exchanges).toEqual([])
    },
  )

  test('keep-alive connections are not reused once their CA is no longer trusted', async () => {
    const server = await serve(({ socket }) => socket.write(answerOf({})))
    let ca = server.certificate.cert
    const client = clientFor({ server: server.url, credentials: () => ({ tls: { ca } }) })
    await client.request(get)
    ca = makeCertificate().cert
    expect((await failure(client.request(get))).message).toMatch(/certificate/)
    expect(server.exchanges).toHaveLength(1)
  })

  test('calls share a connection while their certificates are equal', async () => {
    const server = await serve(({ socket }) => socket.write(answerOf({})))
    const { cert } = server.certificate
    // Some clients return a new Buffer for each call.
    const client = clientFor({ server: server.url, credentials: () => ({ tls: { ca: Buffer.from(cert) } }) })
    for (let calls = 0; calls < 3; calls++) await client.request(get)
    expect(server.opened).toBe(1)
  })
})

test('the client supports IPv6 addresses and base paths', async () => {
  const server = await serve(({ socket, line }) => socket.write(answerOf({ line })), { host: '::1' })
  for (const path of ['', '/', '/k8s/clusters/c-1', '/k8s/clusters/c-1/']) {
    const client = clientFor(connectionTo(server.url + path, server.certificate))
    expect(await client.request(get)).toEqual({
      status: 200,
      body: { line: `GET ${path.replace(/\/$/, '')}/a` },
    })
  }
  expect(server.exchanges[0]?.text).toMatch(new RegExp(`^host: \\[::1\\]:${server.port}\r$`, 'im'))
})

test.each(['http://127.0.0.1:8080', 'no address', '', 'ftp://x'])(
  'KubernetesClient refuses %j as a server',
  (server) => {
    expect(() => clientFor({ server, credentials: () => ({ tls: {} }) })).toThrow(/^Option "server" is .* https: URL/)
  },
)

test('the error lists every address of a name that could not be reached', async () => {
  const addresses = [
    { address: '::1', family: 6 },
    { address: '127.0.0.1', family: 4 },
  ]
  const lookup: LookupFunction = (_host, _options, found) => found(null, addresses)
  const agent = new Agent({ lookup })
  const client = clientFor({ server: 'https://api.example.test:1', credentials: () => ({ tls: {}, agent }) })
  const { message } = await failure(client.request(get))
  for (const { address } of addresses) expect(message).toContain(`ECONNREFUSED ${address}:1`)
})

test('no error shows the credentials', async () => {
  const answers: Record<string, string | undefined> = {
    'GET /hangs': undefined,
    'GET /cut': `${chunkedHead}ff\r\n{`,
    'GET /garbled': 'no HTTP at all\r\n\r\n',
    'GET /changes': 'HTTP/1.1 101 Some\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n',
    'GET /refused': answerOf({ kind: 'Status', message: 'no' }, { status: '403 Forbidden' }),
  }
  const server = await serve(({ socket, line, reset }) => {
    const answer = answers[line]
    if (line !== 'GET /hangs') socket.write(answer ?? '', line === 'GET /cut' ? reset : undefined)
  })
  const other = await serve(() => undefined, { certificate: makeCertificate({ names: ['api.example.test'] }) })
  const client = clientFor(server.connection)
  const ask = (path: string, body?: unknown) => client.request({ method: 'GET', path, body, signal, timeoutMs: 200 })
  const withToken = (authorization: string) =>
    clientFor({ server: server.url, credentials: () => ({ authorization, tls: { ca: server.certificate.cert } }) })
  const errors = [
    await failure(ask('/hangs')),
    await failure(ask('/cut')),
    await failure(ask('/garbled')),
    await failure(ask('/changes')),
    await failure(ask('/with a blank')),
    await failure(ask('/a', { number: 1n })),
    await failure(client.watch({ path: '/refused', signal, silenceMs: () => 1_000 }).next()),
    await failure(clientFor(other.connection).request(get)),
    await failure(clientFor(connectionTo('https://127.0.0.1:1')).request(get)),
    await failure(withToken(`Bearer ${secret}\nx: y`).request(get)),
    await failure(withToken(`Bearer ${secret}€`).request(get)),
  ]
  expect(server.exchanges.some(({ text }) => text.includes(secret))).toBe(true)
  for (const shown of [...errors, client]) {
    expect(inspect(shown, { depth: Infinity, showHidden: true, getters: true })).not.toContain(secret)
  }
})
