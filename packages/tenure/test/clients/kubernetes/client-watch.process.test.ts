import { getEventListeners } from 'node:events'
import { describe, expect, test, vi } from 'vitest'
import { ApiError } from '../../../src/clients/kubernetes/api-error.ts'
import type { ApiWatch, KubernetesClient } from '../../../src/clients/kubernetes/client.ts'
import { fakeClock } from '../../../../testing/src/index.ts'
import { answerOf, chunkedHead, chunkOf, clientFor, serve, type TlsServer } from './tls-server.ts'

const soon = { timeout: 5_000, interval: 5 }
const unending = new AbortController().signal

/** A server that accepts watches. The test writes their events. */
const serveWatches = () =>
  serve(({ socket, line }) => socket.write(line === 'GET /watch' ? chunkedHead : answerOf({ line })))

async function write(server: TlsServer, ...pieces: readonly (string | Buffer)[]): Promise<void> {
  await vi.waitUntil(() => server.exchanges.length > 0, soon)
  const socket = server.exchanges.at(-1)?.socket
  // Write each piece as a separate packet.
  for (const piece of pieces) await new Promise((resolve) => socket?.write(chunkOf(piece), resolve))
}

function watchOf(client: KubernetesClient, change: Partial<Pick<ApiWatch, 'signal' | 'silenceMs'>> = {}) {
  return client.watch({ path: '/watch', signal: unending, silenceMs: () => 60_000, ...change })
}

async function take(watch: AsyncGenerator, count: number): Promise<unknown[]> {
  const taken: unknown[] = []
  while (taken.length < count) taken.push((await watch.next()).value)
  return taken
}

describe('lines of a watch', () => {
  test('lines of a watch arrive whole, however the network splits them', async () => {
    const server = await serveWatches()
    const watch = watchOf(clientFor(server.connection))
    const events = [
      { type: 'ADDED', name: 'grüße 🚀' },
      { type: 'MODIFIED', name: '日本' },
      { type: 'DELETED', name: '' },
    ]
    const bytes = Buffer.from(events.map((event) => `${JSON.stringify(event)}\n`).join(''))
    const taken = take(watch, events.length)
    // Write byte by byte, so that every line and every multi-byte character is split.
    await write(server, ...Array.from(bytes, (byte) => Buffer.from([byte])))
    expect(await taken).toEqual(events)
    await watch.return()
  })

  test('a watch yields many lines of one packet one by one', async () => {
    const server = await serveWatches()
    const watch = watchOf(clientFor(server.connection))
    const taken = take(watch, 100)
    await write(server, Array.from({ length: 100 }, (_, index) => `{"index":${index}}\n`).join(''))
    expect(await taken).toEqual(Array.from({ length: 100 }, (_, index) => ({ index })))
    await watch.return()
  })

  test('a watch yields undefined for lines that are not JSON objects, and continues', async () => {
    const server = await serveWatches()
    const watch = watchOf(clientFor(server.connection))
    const taken = take(watch, 5)
    await write(server, '\n{"cut":\n[1]\n<html>\n{"type":"ADDED"}\n')
    expect(await taken).toEqual([undefined, undefined, undefined, undefined, { type: 'ADDED' }])
    await watch.return()
  })

  test('a watch fails when a line never ends', async () => {
    const server = await serveWatches()
    const failed = expect(watchOf(clientFor(server.connection)).next()).rejects.toMatchObject({
      code: 'BACKEND_UNAVAILABLE',
    })
    const piece = 'x'.repeat(2 ** 20)
    await write(server, piece, piece, piece, piece, piece)
    await failed
    await vi.waitUntil(() => server.sockets.size === 0, soon)
  })
})

describe('the end of a watch', () => {
  test('a watch is done when the server ends it, and its connection is kept', async () => {
    const server = await serveWatches()
    const client = clientFor(server.connection)
    const caller = new AbortController()
    const watch = watchOf(client, { signal: caller.signal })
    const taken = take(watch, 2)
    await write(server, '{"type":"ADDED"}\n', '')
    expect(await taken).toEqual([{ type: 'ADDED' }, undefined])
    expect(getEventListeners(caller.signal, 'abort')).toEqual([])
    await client.request({ method: 'GET', path: '/a', signal: unending })
    expect(server.opened).toBe(1)
  })

  test.each(['reset', 'end'] as const)('a watch fails when its connection breaks (%s)', async (how) => {
    const server = await serveWatches()
    const watch = watchOf(clientFor(server.connection))
    const first = watch.next()
    await write(server, '{"type":"ADDED"}\n{"type":')
    expect(await first).toMatchObject({ value: { type: 'ADDED' } })
    const next = watch.next()
    if (how === 'reset') server.exchanges[0]?.reset()
    else server.exchanges[0]?.socket.end()
    await expect(next).rejects.toMatchObject({ code: 'BACKEND_UNAVAILABLE', retryable: true })
  })

  test('leaving the iteration of a watch closes its connection', async () => {
    const server = await serveWatches()
    const clock = fakeClock()
    const caller = new AbortController()
    const watch = watchOf(clientFor(server.connection, clock), { signal: caller.signal })
    void write(server, '{"type":"ADDED"}\n{"type":"MODIFIED"}\n')
    for await (const event of watch) {
      expect(event).toEqual({ type: 'ADDED' })
      break
    }
    expect(getEventListeners(caller.signal, 'abort')).toEqual([])
    expect(clock.timers).toBe(0)
    await vi.waitUntil(() => server.sockets.size === 0, soon)
  })

  test('an error in the iteration of a watch closes its connection and is rethrown', async () => {
    const server = await serveWatches()
    const mistake = new Error('a mistake of the caller')
    void write(server, '{"type":"ADDED"}\n')
    const used = async () => {
      for await (const event of watchOf(clientFor(server.connection))) {
        expect(event).toEqual({ type: 'ADDED' })
        throw mistake
      }
    }
    await expect(used()).rejects.toBe(mistake)
    await vi.waitUntil(() => server.sockets.size === 0, soon)
  })

  test('a watch closes its connection when silenceMs throws', async () => {
    const server = await serveWatches()
    const clock = fakeClock()
    const mistake = new TypeError('a mistake of the caller')
    const silenceMs = () => {
      throw mistake
    }
    await expect(watchOf(clientFor(server.connection, clock), { silenceMs }).next()).rejects.toMatchObject({
      cause: mistake,
    })
    expect(clock.timers).toBe(0)
    await vi.waitUntil(() => server.sockets.size === 0, soon)
  })

  test('an abort ends a watch at once with its reason and closes the connection', async () => {
    const server = await serveWatches()
    const caller = new AbortController()
    const watch = watchOf(clientFor(server.connection), { signal: caller.signal })
    const first = watch.next()
    await write(server, '{"type":"ADDED"}\n')
    await first
    const next = watch.next()
    caller.abort(new Error('enough'))
    await expect(next).rejects.toBe(caller.signal.reason)
    expect(await watch.next()).toEqual({ done: true, value: undefined })
    await vi.waitUntil(() => server.sockets.size === 0, soon)
  })

  test('an abort ends a watch before lines that have already arrived', async () => {
    const server = await serveWatches()
    const caller = new AbortController()
    const watch = watchOf(clientFor(server.connection), { signal: caller.signal })
    const first = watch.next()
    await write(server, '{"index":0}\n{"index":1}\n{"index":2}\n')
    expect(await first).toMatchObject({ value: { index: 0 } })
    caller.abort(new Error('enough'))
    await expect(watch.next()).rejects.toBe(caller.signal.reason)
  })

  test('a watch that was never iterated opens no connection and leaves no listener', async () => {
    const server = await serveWatches()
    const caller = new AbortController()
    await watchOf(clientFor(server.connection), { signal: caller.signal }).return()
    expect(getEventListeners(caller.signal, 'abort')).toEqual([])
    expect(server.opened).toBe(0)
  })
})

describe('the timeout of a silent watch', () => {
  test('a watch times out when silenceMs passes without a line', async () => {
    const server = await serveWatches()
    const clock = fakeClock()
    const bounds = [5_000, 300]
    const watch = watchOf(clientFor(server.connection, clock), { silenceMs: () => bounds.shift() ?? 1 })
    const first = watch.next()
    // The response head has arrived once the timeout of ten seconds is replaced by the watch timeout.
    await vi.waitUntil(() => bounds.length === 1, soon)
    await clock.advance(4_999)
    await write(server, '{"type":"ADDED"}\n')
    expect(await first).toMatchObject({ value: { type: 'ADDED' } })
    // The watch timeout is not running while the caller is busy.
    await clock.advance(60_000)
    const failed = expect(watch.next()).rejects.toMatchObject({
      code: 'TIMEOUT',
      retryable: true,
      message: `The API server at ${server.url} sent nothing to a watch within 300 ms.`,
    })
    await vi.waitUntil(() => clock.timers === 1, soon)
    await clock.advance(300)
    await failed
    expect(clock.timers).toBe(0)
    await vi.waitUntil(() => server.sockets.size === 0, soon)
  })

  test('bytes without a line break do not reset the timeout of a watch', async () => {
    const server = await serve(({ socket }) => {
      socket.write(chunkedHead)
      const timer = setInterval(() => socket.write(chunkOf(' ')), 10)
      socket.on('close', () => clearInterval(timer))
    })
    const watch = watchOf(clientFor(server.connection), { silenceMs: () => 200 })
    await expect(watch.next()).rejects.toMatchObject({ code: 'TIMEOUT' })
    await vi.waitUntil(() => server.sockets.size === 0, soon)
  })
})

describe('a refused watch', () => {
  const status = (code: number, message: string) => ({ kind: 'Status', code, message, reason: 'Some' })
  test.each([
    [401, 'UNAUTHORIZED', false],
    [403, 'UNAUTHORIZED', false],
    [404, 'BACKEND_UNAVAILABLE', false],
    [410, 'BACKEND_UNAVAILABLE', true],
    [429, 'BACKEND_UNAVAILABLE', true],
    [500, 'BACKEND_UNAVAILABLE', true],
  ])('a watch that is refused with %i fails with its code', async (code, expected, retryable) => {
    const text = answerOf(status(code, 'said so'), { status: `${code} Some` })
    const server = await serve(({ socket }) => socket.write(text))
    const client = clientFor(server.connection)
    const error = await watchOf(client)
      .next()
      .catch((reason: unknown) => reason)
    expect(error).toBeInstanceOf(ApiError)
    expect(error).toMatchObject({ status: code, code: expected, retryable })
    // The refusal was a complete response, so the connection is reused for the next request.
    await client.request({ method: 'GET', path: '/a', signal: unending })
    expect(server.opened).toBe(1)
  })

  test.each([204, 302, 206])('a response with status %i is not accepted as a watch', async (code) => {
    const server = await serve(({ socket }) => socket.write(`HTTP/1.1 ${code} Some\r\ncontent-length: 0\r\n\r\n`))
    await expect(watchOf(clientFor(server.connection)).next()).rejects.toMatchObject({ status: code })
  })
})

test('a slow caller slows the server down instead of buffering events', async () => {
  const server = await serveWatches()
  const watch = watchOf(clientFor(server.connection))
  const first = watch.next()
  const line = `{"text":"${'x'.repeat(2 ** 16)}"}\n`
  await write(server, line)
  await first
  const socket = server.exchanges[0]?.socket
  let sentBytes = 0
  const send = (error?: Error | null) => {
    if (error) return
    sentBytes += line.length
    socket?.write(chunkOf(line), send)
  }
  send()
  let before = -1
  // The kernel buffers a few megabytes. After that the server has to wait.
  await vi.waitUntil(
    () => {
      const stands = before === sentBytes
      before = sentBytes
      return stands
    },
    { timeout: 20_000, interval: 300 },
  )
  expect(sentBytes).toBeLessThan(2 ** 26)
  const memory = process.memoryUsage().arrayBuffers
  expect(memory).toBeLessThan(2 ** 27)
  await take(watch, 20)
  await watch.return()
  await vi.waitUntil(() => server.sockets.size === 0, soon)
})
