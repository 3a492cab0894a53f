import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { startProxy, type Proxy } from './proxy.ts'

/** The data that one end of a connection has received, and how the connection ended. */
class Peer {
  readonly socket: Socket
  text = ''
  ended: 'by end' | 'by reset' | undefined
  constructor(socket: Socket) {
    this.socket = socket
    socket.setEncoding('utf8').on('data', (text: string) => (this.text += text))
    socket.once('end', () => (this.ended ??= 'by end'))
    socket.once('error', () => (this.ended ??= 'by reset'))
  }
}

const accepted: Peer[] = []
const clients: Peer[] = []
const target = createServer({ allowHalfOpen: true }, (socket) => accepted.push(new Peer(socket)))
let proxy: Proxy

beforeEach(async () => {
  target.listen(0, '127.0.0.1')
  await once(target, 'listening')
  proxy = await startProxy((target.address() as AddressInfo).port)
})

afterEach(async () => {
  proxy.stop()
  for (const { socket } of [...clients.splice(0), ...accepted.splice(0)]) socket.destroy()
  target.close()
  await once(target, 'close')
})

const soon = { timeout: 5_000, interval: 5 }

/** Opens a connection through the proxy and returns both ends. */
async function open(): Promise<{ client: Peer; server: Peer }> {
  const count = accepted.length
  const client = new Peer(connect({ port: proxy.port, host: '127.0.0.1', allowHalfOpen: true }))
  clients.push(client)
  await once(client.socket, 'connect')
  await vi.waitUntil(() => accepted.length > count, soon)
  return { client, server: accepted.at(-1)! }
}

const receives = (peer: Peer, text: string) => vi.waitFor(() => expect(peer.text).toBe(text), soon)
const swallows = (text: string) => vi.waitUntil(() => proxy.swallowedBytes === text.length, soon)
const endsBy = (peer: Peer, how: Peer['ended']) => vi.waitFor(() => expect(peer.ended).toBe(how), soon)

test('the proxy forwards bytes and the end of a connection in both directions', async () => {
  const { client, server } = await open()
  client.socket.end('question')
  await receives(server, 'question')
  await endsBy(server, 'by end')
  server.socket.end('answer')
  await receives(client, 'answer')
  await endsBy(client, 'by end')
  await vi.waitUntil(() => proxy.open === 0, soon)
  expect(proxy.opened).toBe(1)
})

test('the proxy forwards large data in order', async () => {
  const { client, server } = await open()
  const much = Array.from({ length: 500_000 }, (_, index) => index).join(' ')
  client.socket.end(much)
  await endsBy(server, 'by end')
  expect(server.text === much).toBe(true)
})

test('the proxy forwards a reset', async () => {
  const { client, server } = await open()
  server.socket.resetAndDestroy()
  await endsBy(client, 'by reset')
})

test('a black hole in one direction forwards requests, and drops answers and the end that the server sends', async () => {
  const { client, server } = await open()
  proxy.set('blackhole', 'to-client')
  client.socket.write('question')
  await receives(server, 'question')
  server.socket.end('lost')
  await swallows('lost')
  proxy.set('pass')
  const other = await open()
  other.server.socket.write('answer')
  await receives(other.client, 'answer')
  expect(client).toMatchObject({ text: '', ended: undefined })
  expect(proxy.open).toBe(2)
  client.socket.destroy()
  await vi.waitUntil(() => proxy.open === 1, soon)
})

test('a connection that lost bytes stays silent when the black hole ends', async () => {
  const { client, server } = await open()
  proxy.set('blackhole', 'to-server')
  client.socket.write('lost')
  await swallows('lost')
  proxy.set('pass')
  client.socket.write(' and late')
  await swallows('lost and late')
  server.socket.write('heard')
  await receives(client, 'heard')
  expect(server.text).toBe('')
})

test('a new connection into a black hole is accepted but not answered', async () => {
  proxy.set('blackhole')
  const { client, server } = await open()
  client.socket.write('question')
  server.socket.end('answer')
  await swallows('questionanswer')
  expect([client.text, server.text]).toEqual(['', ''])
})

test('held bytes arrive when the network has healed', async () => {
  const { client, server } = await open()
  proxy.set('hold')
  client.socket.write('question')
  server.socket.write('answer')
  await vi.waitUntil(() => proxy.queuedBytes === 'questionanswer'.length, soon)
  expect(server.text).toBe('')
  proxy.set('pass', 'to-server')
  await receives(server, 'question')
  expect(client.text).toBe('')
  proxy.set('pass')
  await receives(client, 'answer')
})

test('a reset while an end is being sent leaves no connection behind', async () => {
  const { client, server } = await open()
  proxy.set('hold')
  client.socket.end()
  await vi.waitUntil(() => proxy.open === 0, soon)
  proxy.set('pass')
  proxy.reset()
  await endsBy(server, 'by end')
  // The first write is answered by a reset, which the next write notices.
  await vi.waitUntil(() => server.socket.destroyed || (server.socket.write('hello?'), false), soon)
})

test('freezeExisting freezes open connections and forwards later ones', async () => {
  const old = await open()
  proxy.freezeExisting()
  const young = await open()
  old.client.socket.write('lost')
  await swallows('lost')
  young.client.socket.write('question')
  await receives(young.server, 'question')
  young.server.socket.write('answer')
  await receives(young.client, 'answer')
  expect(old.server.text).toBe('')
})

test('a delay applies to bytes and to the end of a connection', async () => {
  const { client, server } = await open()
  proxy.set({ delayMs: 150 }, 'to-server')
  const sentMs = performance.now()
  client.socket.end('question')
  await receives(server, 'question')
  expect(performance.now() - sentMs).toBeGreaterThanOrEqual(150)
  await endsBy(server, 'by end')
})

test('the trickle mode forwards a few bytes at a time', async () => {
  const { client, server } = await open()
  proxy.set({ bytes: 2, everyMs: 50 })
  const sentMs = performance.now()
  const parts: string[] = []
  server.socket.on('data', (part: string) => parts.push(part))
  client.socket.end('question')
  await endsBy(server, 'by end')
  expect(parts).toEqual(['qu', 'es', 'ti', 'on'])
  expect(performance.now() - sentMs).toBeGreaterThanOrEqual(150)
})

test('reset closes all connections at once on both sides', async () => {
  const all = [await open(), await open()]
  proxy.reset()
  for (const { client, server } of all) {
    await endsBy(client, 'by reset')
    await endsBy(server, 'by reset')
  }
  expect(proxy.open).toBe(0)
})

test('refuse rejects new connections and keeps open ones, until accept', async () => {
  const old = await open()
  proxy.refuse()
  await expect(open()).rejects.toThrow(/ECONNREFUSED/)
  old.client.socket.write('question')
  await receives(old.server, 'question')
  await proxy.accept()
  const young = await open()
  young.client.socket.write('another')
  await receives(young.server, 'another')
})

test('the proxy resets accepted connections when the server is down', async () => {
  const down = await startProxy(await closedPort())
  const client = new Peer(connect(down.port, '127.0.0.1'))
  clients.push(client)
  await endsBy(client, 'by reset')
  down.stop()
})

async function closedPort(): Promise<number> {
  const other = await startProxy(1)
  other.stop()
  return other.port
}
