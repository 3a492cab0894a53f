import { once } from 'node:events'
import { createServer as createPlainServer } from 'node:http'
import { createServer, type Http2Session, type ServerHttp2Stream } from 'node:http2'
import type { AddressInfo, Server } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { fakeClock } from '../../../../testing/src/index.ts'
import type { Credentials } from 'tenure/internal/etcd'
import { GrpcClient } from '../../../src/storage/etcd-grpc/grpc-client.ts'

type Mutable<T> = { -readonly [Key in keyof T]: T[Key] }

const { signal } = new AbortController()
const message = Buffer.from('question')
const call = { path: '/service/Method', message, signal, timeoutMs: 3_000 }

function framed(content: Buffer): Buffer {
  const prefix = Buffer.alloc(5)
  prefix.writeUInt32BE(content.length, 1)
  return Buffer.concat([prefix, content])
}

function reply(
  stream: ServerHttp2Stream,
  body: Buffer,
  trailers: Record<string, string> = { 'grpc-status': '0' },
): void {
  stream.respond({ ':status': 200 }, { waitForTrailers: true })
  stream.on('wantTrailers', () => stream.sendTrailers(trailers))
  stream.end(body)
}

async function portOf(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  return (server.address() as AddressInfo).port
}

/** A real HTTP/2 server. `onCall` gets the number of the call, from 1. */
async function open(onCall: (stream: ServerHttp2Stream, count: number, body: Buffer) => void) {
  const sessions: Http2Session[] = []
  let count = 0
  const server = createServer()
  server.on('session', (session) => {
    sessions.push(session)
    session.on('error', () => {})
  })
  server.on('stream', (stream) => {
    stream.on('error', () => {})
    const chunks: Buffer[] = []
    stream.on('data', (chunk: Buffer) => chunks.push(chunk))
    stream.on('end', () => onCall(stream, ++count, Buffer.concat(chunks)))
  })
  const port = await portOf(server)
  onTestFinished(() => {
    for (const session of sessions) session.destroy()
  })
  return { sessions, ...clientOf(port) }
}

function clientOf(port: number) {
  const clock = fakeClock()
  const base = new URL(`http://127.0.0.1:${port}`)
  const credentials: Mutable<Credentials> = { tls: {} }
  const client = new GrpcClient({ name: 'The peer', base, credentials: () => ({ ...credentials }) }, clock)
  onTestFinished(() => client.close())
  return { clock, client, credentials }
}

test('calls share one connection and get their own answers', async () => {
  const { sessions, client, clock } = await open((stream, count, body) => {
    expect(body).toEqual(framed(message))
    reply(stream, framed(Buffer.from(`answer ${count}`)))
  })
  const answers = await Promise.all([client.call(call), client.call(call), client.call(call)])
  expect(answers.map((answer) => answer.message.toString()).toSorted()).toEqual(['answer 1', 'answer 2', 'answer 3'])
  expect(sessions).toHaveLength(1)
  expect(clock.timers).toBe(0)
})

test('an error of the peer is an answer, with and without a body', async () => {
  const { client } = await open((stream, count) => {
    const error = { 'grpc-status': '14', 'grpc-message': 'no%20leader%' }
    if (count === 1) stream.respond({ ':status': 200, ...error }, { endStream: true })
    else reply(stream, Buffer.alloc(0), { ...error, 'grpc-message': 'no%20leader' })
  })
  expect(await client.call(call)).toMatchObject({ code: 14, text: 'no%20leader%' })
  expect(await client.call(call)).toMatchObject({ code: 14, text: 'no leader' })
})

test.for<[name: string, answer: (stream: ServerHttp2Stream) => void]>([
  ['has no trailers', (stream) => stream.respond({ ':status': 200 }, { endStream: true })],
  ['is not gRPC', (stream) => stream.respond({ ':status': 404 }, { endStream: true })],
  ['has no message', (stream) => reply(stream, Buffer.alloc(0))],
  ['is shorter than its prefix says', (stream) => reply(stream, framed(message).subarray(0, -1))],
  ['has two messages', (stream) => reply(stream, Buffer.concat([framed(message), framed(message)]))],
  ['is compressed', (stream) => reply(stream, Buffer.concat([Buffer.from([1]), framed(message).subarray(1)]))],
  ['is reset', (stream) => stream.close(2)],
  ['is longer than the limit', (stream) => reply(stream, framed(Buffer.alloc(5 * 2 ** 20)))],
])('a call rejects if its answer %s', async ([, answer]) => {
  const { client, clock } = await open(answer)
  await expect(client.call(call)).rejects.toMatchObject({ code: 'BACKEND_UNAVAILABLE', retryable: true })
  expect(clock.timers).toBe(0)
})

test('a call that is not answered in time rejects, and the next call uses a new connection', async () => {
  let asked = (): void => undefined
  const reached = new Promise<void>((resolve) => (asked = resolve))
  const { client, clock, sessions } = await open((stream, count) => {
    if (count === 1) asked()
    else reply(stream, framed(message))
  })
  const late = { code: 'TIMEOUT', message: 'The peer did not answer within 3000 ms.' }
  const rejected = expect(client.call(call)).rejects.toMatchObject(late)
  await reached
  await clock.advance(3_000)
  await rejected
  expect(await client.call(call)).toMatchObject({ code: 0, message })
  expect(sessions).toHaveLength(2)
})

test('a caller that leaves ends only its own call', async () => {
  const streams: ServerHttp2Stream[] = []
  let asked = (): void => undefined
  const reached = new Promise<void>((resolve) => (asked = resolve))
  const { client } = await open((stream, count) => {
    streams.push(stream)
    if (count === 2) asked()
  })
  const leaving = new AbortController()
  const left = client.call({ ...call, signal: leaving.signal })
  const other = client.call(call)
  await reached
  leaving.abort(new Error('enough'))
  await expect(left).rejects.toThrow('enough')
  for (const stream of streams) if (!stream.destroyed) reply(stream, framed(message))
  expect(await other).toMatchObject({ code: 0, message })
})

test('a call on a connection that the peer has closed is sent again on a new one', async () => {
  const { client, sessions } = await open((stream, count) => {
    if (count === 2) stream.session?.destroy()
    else reply(stream, framed(message))
  })
  expect(await client.call(call)).toMatchObject({ code: 0 })
  expect(await client.call(call)).toMatchObject({ code: 0 })
  expect(sessions).toHaveLength(2)
})

test('a call on a new connection that the peer closes rejects', async () => {
  const { client, sessions } = await open((stream) => stream.session?.destroy())
  await expect(client.call(call)).rejects.toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
  expect(sessions).toHaveLength(1)
})

test('a call to a peer that speaks only HTTP/1.1 rejects', async () => {
  const { client } = clientOf(await portOf(createPlainServer((_request, response) => void response.end())))
  await expect(client.call(call)).rejects.toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
})

test('a call with other TLS credentials than the previous one opens a new connection', async () => {
  const { sessions, client, credentials } = await open((stream) => reply(stream, framed(message)))
  await client.call(call)
  await client.call(call)
  expect(sessions).toHaveLength(1)
  credentials.tls = { ca: 'another' }
  await client.call(call)
  expect(sessions).toHaveLength(2)
})

test('a call that is canceled while its connection opens does not disturb the next call', async () => {
  const { client } = await open((stream) => reply(stream, framed(Buffer.from('answer'))))
  const canceled = new AbortController()
  const first = client.call({ ...call, signal: canceled.signal })
  canceled.abort(new Error('canceled'))
  await expect(first).rejects.toThrow('canceled')
  // Its connection opens before this call is answered.
  expect((await client.call(call)).message.toString()).toBe('answer')
})

test('a call that ends on an old connection leaves the new connection open', async () => {
  const { client, sessions } = await open((stream, count) => {
    if (count > 2) reply(stream, framed(Buffer.from('answer')))
  })
  const ends = [new AbortController(), new AbortController()]
  const ended = ends.map((end) => client.call({ ...call, signal: end.signal }).catch((error: unknown) => error))
  await expect.poll(() => sessions.length).toBe(1)
  ends[0]?.abort(new Error('first'))
  await ended[0]
  const later = client.call(call)
  // The new connection is still opening.
  ends[1]?.abort(new Error('second'))
  expect((await later).message.toString()).toBe('answer')
  expect(await Promise.all(ended)).toMatchObject([{ message: 'first' }, { message: 'second' }])
})
