import { createServer } from 'node:net'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { answerOf, chunkedHead, chunkOf, clientFor, connectionTo, serve, type Exchange } from './tls-server.ts'

const { signal } = new AbortController()
const get = { method: 'GET', path: '/a', signal, timeoutMs: 5_000 } as const
const put = { method: 'PUT', path: '/a', body: { some: 'thing' }, signal, timeoutMs: 5_000 } as const

/** Returns the outcome of a call that gets this answer, and checks that a second call succeeds. */
async function ask(answer: (exchange: Exchange) => void) {
  const server = await serve((exchange) => {
    if (server.exchanges.length === 1) answer(exchange)
    else exchange.socket.write(answerOf({ call: server.exchanges.length }))
  })
  const client = clientFor(server.connection)
  const startedMs = performance.now()
  const outcome = await client.request(get).catch((error: unknown) => error)
  // A broken answer is detected when it arrives, not at the deadline.
  expect(performance.now() - startedMs).toBeLessThan(4_000)
  expect(await client.request(get)).toEqual({ status: 200, body: { call: server.exchanges.length } })
  return { outcome, server }
}

describe('broken answers to the Kubernetes client', () => {
  const head = (length: number) => `HTTP/1.1 200 OK\r\ncontent-length: ${length}\r\n\r\n`
  const broken: Record<string, (exchange: Exchange) => void> = {
    'reset instead of an answer': ({ reset }) => reset(),
    'closed instead of an answer': ({ socket }) => socket.end(),
    'reset in the middle of the head': ({ socket, reset }) => socket.write('HTTP/1.1 200 OK\r\ncont', reset),
    'reset in the middle of the body': ({ socket, reset }) => socket.write(`${head(20)}{"kind":`, reset),
    'closed in the middle of the body': ({ socket }) => socket.end(`${head(20)}{"kind":"x"}`),
    'closed between two chunks': ({ socket }) => socket.end(Buffer.concat([Buffer.from(chunkedHead), chunkOf('{}')])),
    'closed in the middle of a chunk': ({ socket }) => socket.end(`${chunkedHead}ff\r\n{"kind":"x"}`),
    'a chunk without a size': ({ socket }) => socket.write(`${chunkedHead}zz\r\n{}\r\n0\r\n\r\n`),
    'a garbled status line': ({ socket }) => socket.write('HTTQ/1.1 two hundred\r\n\r\n'),
    'a head that is too long': ({ socket }) => socket.write(`HTTP/1.1 200 OK\r\nx: ${'y'.repeat(200_000)}\r\n\r\n`),
    'two lengths': ({ socket }) => socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}'),
    'a length and chunks': ({ socket }) =>
      socket.write(`${chunkedHead.trimEnd()}\r\ncontent-length: 2\r\n\r\n0\r\n\r\n`),
    'another protocol': ({ socket }) =>
      socket.write('HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n'),
    'five megabytes': ({ socket }) => socket.write(answerOf({ text: 'x'.repeat(5 * 2 ** 20) })),
  }
  test.each(Object.entries(broken))(
    'request rejects and the next call succeeds after a broken answer: %s',
    async (_name, answer) => {
      const { outcome, server } = await ask(answer)
      expect(outcome).toMatchObject({ code: 'BACKEND_UNAVAILABLE', retryable: true })
      expect((outcome as Error).message).toMatch(new RegExp(`^The API server at ${server.url} .+: .+`))
      expect(server.opened).toBe(2)
    },
  )

  test('request stops reading an endless answer at the size limit', async () => {
    let sentBytes = 0
    const piece = chunkOf(Buffer.alloc(2 ** 16, ' '))
    const { outcome } = await ask(({ socket }) => {
      const send = (error?: Error | null) => {
        sentBytes += piece.length
        if (!error) socket.write(piece, send)
      }
      socket.write(chunkedHead, send)
    })
    expect(outcome).toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
    expect(sentBytes).toBeLessThan(2 ** 26)
  })

  test('request rejects when the server does not speak TLS', async () => {
    const plain = createServer((socket) => {
      socket.on('error', () => undefined)
      socket.end('HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n')
    }).listen(0, '127.0.0.1')
    await once(plain, 'listening')
    onTestFinished(() => void plain.close())
    const { port } = plain.address() as AddressInfo
    const asked = clientFor(connectionTo(`https://127.0.0.1:${port}`)).request(get)
    await expect(asked).rejects.toMatchObject({ code: 'BACKEND_UNAVAILABLE', retryable: true })
  })
})

describe('answers to the Kubernetes client that are not JSON objects', () => {
  const answers: Record<string, { status: number; text: string }> = {
    'JSON that was cut off': { status: 200, text: answerOf('{"kind":"Lease","metadata":{"na') },
    'nothing at all': { status: 200, text: answerOf('') },
    'an HTML page of a proxy': { status: 200, text: answerOf('<html>Sign in</html>', { type: 'text/html' }) },
    'a list': { status: 200, text: answerOf([1, 2]) },
    'a string': { status: 200, text: answerOf('"Lease"') },
    'a number': { status: 200, text: answerOf('5') },
    null: { status: 200, text: answerOf('null') },
    'a hundred thousand open brackets': { status: 200, text: answerOf('['.repeat(100_000)) },
    'an error page of a proxy': {
      status: 502,
      text: answerOf('Bad Gateway', { status: '502 Bad Gateway', type: 'text/plain' }),
    },
    'no content': { status: 204, text: 'HTTP/1.1 204 No Content\r\n\r\n' },
    'an unknown status': { status: 999, text: answerOf('', { status: '999 Whatever' }) },
  }
  test.each(Object.entries(answers))(
    'request returns the status without a body for %s',
    async (_name, { status, text }) => {
      const { outcome, server } = await ask(({ socket }) => socket.write(text))
      expect(outcome).toEqual({ status, body: undefined })
      expect(server.opened).toBe(1)
    },
  )

  test('request does not follow a redirect, so that no token is sent elsewhere', async () => {
    const elsewhere = await serve(({ socket }) => socket.write(answerOf({})))
    const text = `HTTP/1.1 307 Temporary Redirect\r\nlocation: ${elsewhere.url}/a\r\ncontent-length: 0\r\n\r\n`
    const { outcome } = await ask(({ socket }) => socket.write(text))
    expect(outcome).toEqual({ status: 307, body: undefined })
    expect(elsewhere.opened).toBe(0)
  })
})

test('request skips informational responses before the answer', async () => {
  const early = 'HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n'
  const { outcome } = await ask(({ socket }) =>
    socket.write(`HTTP/1.1 100 Continue\r\n\r\n${early}${early}${answerOf({ kind: 'Lease' })}`),
  )
  expect(outcome).toEqual({ status: 200, body: { kind: 'Lease' } })
})

describe('answers that belong to no call', () => {
  test('a second answer to one call is not given to the next call', async () => {
    const { outcome } = await ask(({ socket }) => socket.write(answerOf({ call: 1 }) + answerOf({ call: 'nobody' })))
    expect([{ status: 200, body: { call: 1 } }, { code: 'BACKEND_UNAVAILABLE' }]).toContainEqual(
      outcome instanceof Error ? { code: 'BACKEND_UNAVAILABLE' } : outcome,
    )
  })

  test('bytes beyond the announced length are not given to the next call', async () => {
    await ask(({ socket }) => socket.write(`${answerOf({ call: 1 })}{"call":"nobody"}`))
  })

  test('an unsolicited answer on an idle connection is not given to the next call', async () => {
    const server = await serve(({ socket, turn }) => socket.write(answerOf({ turn })))
    const client = clientFor(server.connection)
    expect(await client.request(get)).toMatchObject({ body: { turn: 1 } })
    const [socket] = server.sockets
    socket?.write(answerOf({ turn: 'nobody' }))
    // A second connection to the same event loop. Once its answer has arrived, the earlier write has arrived as well.
    await clientFor(server.connection).request(get)
    await new Promise(setImmediate)
    expect(await client.request(get)).toMatchObject({ body: { turn: expect.any(Number) as number } })
  })
})

describe('keep-alive connections that the server closed', () => {
  /** Connections that break on their second request, as after an idle timeout of the server. */
  const breaksAt = (turn: number, how: 'reset' | 'end' = 'reset') =>
    serve((exchange) => {
      if (exchange.turn < turn) exchange.socket.write(answerOf({ line: exchange.line }))
      else if (how === 'end') exchange.socket.end()
      else exchange.reset()
    })

  test.each(['reset', 'end'] as const)(
    'a GET and a PUT succeed after the server closed a keep-alive connection by %s',
    async (how) => {
      const server = await breaksAt(2, how)
      const client = clientFor(server.connection)
      for (const call of [get, put, put, get]) {
        expect(await client.request(call)).toEqual({ status: 200, body: { line: `${call.method} /a` } })
      }
      expect(server.opened).toBe(4)
      const bodies = server.exchanges
        .filter(({ line }) => line === 'PUT /a')
        .map(({ text }) => text.split('\r\n\r\n')[1])
      expect(bodies).toEqual(Array.from({ length: 4 }, () => '{"some":"thing"}'))
    },
  )

  test('a connection that was closed while idle is not reused', async () => {
    const server = await breaksAt(Infinity)
    const client = clientFor(server.connection)
    await client.request(get)
    for (const socket of server.sockets) socket.end()
    await vi.waitUntil(() => server.sockets.size === 0, { timeout: 5_000, interval: 5 })
    expect((await client.request(put)).status).toBe(200)
    expect(server.exchanges).toHaveLength(2)
  })

  test('a retry after a broken keep-alive connection uses a new connection, not another idle one', async () => {
    const server = await breaksAt(2)
    const client = clientFor(server.connection)
    await Promise.all(Array.from({ length: 5 }, () => client.request(get)))
    expect(server.opened).toBe(5)
    expect((await client.request(put)).status).toBe(200)
    expect(server.exchanges).toHaveLength(7)
  })

  test('a call on a broken keep-alive connection is retried only once', async () => {
    const server = await serve(({ socket, reset }) => {
      if (server.exchanges.length === 1) socket.write(answerOf({}))
      else reset()
    })
    const client = clientFor(server.connection)
    await client.request(get)
    await expect(client.request(put)).rejects.toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
    expect(server.exchanges.map(({ line, turn }) => [line, turn])).toEqual([
      ['GET /a', 1],
      ['PUT /a', 2],
      ['PUT /a', 1],
    ])
    // A call on a new connection is not retried, because only the server can be the cause.
    await expect(client.request(put)).rejects.toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
    expect(server.exchanges).toHaveLength(4)
  })

  test('a call is not retried when its connection breaks in the middle of the answer, because its outcome is unknown', async () => {
    const server = await serve(({ socket, turn, reset }) => {
      if (turn === 1) socket.write(answerOf({}))
      else socket.write('HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\n{', reset)
    })
    const client = clientFor(server.connection)
    await client.request(get)
    await expect(client.request(put)).rejects.toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
    expect(server.exchanges).toHaveLength(2)
  })
})
