import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { makeCertificate } from '../../../tenure/test/kubernetes/certificate.ts'
import type { ServiceOptions } from '../../src/index.ts'
import { answers, campaign, closed, expectRefused, json, open, renewing, request } from '../attacks.ts'
import { serve } from '../service-under-test.ts'

const limits = { headersTimeoutMs: 1_000, requestTimeoutMs: 2_000 }

async function start(more: ServiceOptions['limits'] = {}, tls?: ServiceOptions['tls']) {
  const service = await serve({ limits: { ...limits, ...more }, tls })
  onTestFinished(() => service.close())
  return service.url
}

function startTls(more: ServiceOptions['limits'] = {}) {
  const directory = mkdtempSync(join(tmpdir(), 'tenure-attacks-tls-'))
  onTestFinished(() => rmSync(directory, { recursive: true }))
  const { cert, key } = makeCertificate()
  const tls = { certFile: join(directory, 'cert.pem'), keyFile: join(directory, 'key.pem') }
  writeFileSync(tls.certFile, cert)
  writeFileSync(tls.keyFile, key)
  return start(more, tls)
}

/** Writes `next` every 100 ms until the connection is closed. Resolves to how long it was open, in ms. */
async function trickle(socket: Socket, first: string | Buffer, next: string): Promise<number> {
  const openedMs = performance.now()
  socket.resume()
  socket.write(first)
  const timer = setInterval(() => socket.write(next), 100)
  await closed(socket)
  clearInterval(timer)
  return performance.now() - openedMs
}

test('renewals continue while 600 connections send their headers byte by byte, and all 600 are closed', async () => {
  const url = await start()
  const leader = await renewing(url, 'steady')
  const head = `GET /healthz HTTP/1.1\r\nHost: ${new URL(url).host}\r\nX-Slow: `
  const openMs = await Promise.all(Array.from({ length: 600 }, () => trickle(open(url), head, 'x')))
  // A leader that renews every third of its lease of 5 s has time for two more tries.
  expect(await leader.slowestMs()).toBeLessThan(1_600)
  await leader.stop()
  expect(Math.min(...openMs)).toBeGreaterThan(900)
  expect(Math.max(...openMs)).toBeLessThan(6_000)
})

const schemes = [
  ['HTTP', start],
  ['HTTPS', startTls],
] as const

describe.each(schemes)('%s', (_name, begin) => {
  test('a request in two pieces is answered', async () => {
    const url = await begin()
    const bytes = request(url, 'POST /v1/groups/g/campaign', [json], campaign)
    const socket = open(url)
    socket.write(bytes.subarray(0, 40))
    setTimeout(() => socket.write(bytes.subarray(40)), 300)
    expect((await answers(socket, 1))[0]).toMatchObject({ status: 200 })
  })

  test('a silent connection is closed', async () => {
    const url = await begin()
    expect(await trickle(open(url), '', '')).toBeLessThan(5_000)
  })

  test('a request with slow headers is refused with 408', async () => {
    const url = await begin()
    const socket = open(url)
    const answer = answers(socket, 1)
    await trickle(socket, 'GET /healthz HTTP/1.1\r\n', 'X: y\r\n')
    expectRefused((await answer)[0], 408)
  })

  test.each([
    ['with a length', 'Content-Length: 1000', 'x'],
    ['in chunks', 'Transfer-Encoding: chunked', '1\r\nx\r\n'],
  ])('a request with a slow body %s is refused with 408', async (_how, header, piece) => {
    const url = await begin()
    const socket = open(url)
    const answer = answers(socket, 1)
    const openMs = await trickle(socket, request(url, 'POST /v1/groups/g/campaign', [json, header]), piece)
    expectRefused((await answer)[0], 408)
    expect(openMs).toBeLessThan(8_000)
  })

  test('a slow body to a route without a body is refused with 400', async () => {
    const url = await begin()
    const socket = open(url)
    const answer = answers(socket, 1)
    await trickle(socket, request(url, 'GET /healthz', ['Transfer-Encoding: chunked']), '1\r\nx\r\n')
    expectRefused((await answer)[0], 400)
  })
})

test('a connection whose TLS handshake stalls is closed', async () => {
  const url = await startTls()
  const { hostname, port } = new URL(url)
  const socket = connect({ host: hostname, port: Number(port) })
  // The first bytes of a ClientHello that never ends.
  expect(await trickle(socket, Buffer.from([0x16, 0x03, 0x01, 0x02, 0x00, 0x01]), '')).toBeLessThan(5_000)
})

test.each(schemes)(
  'a client over %s that reads nothing is disconnected, and one that reads slowly is not',
  async (_name, begin) => {
    const url = await begin({ answerTimeoutMs: 1_000, headersTimeoutMs: 10_000, requestTimeoutMs: 10_000 })
    const body = JSON.stringify({ node_id: 'a', lease_ttl_ms: 60_000, metadata: { text: 'x'.repeat(4_000) } })
    const groups = Array.from({ length: 200 }, (_, index) => `POST /v1/groups/g${index}/campaign`)
    const filling = open(url)
    for (const line of groups) filling.write(request(url, line, [json], body))
    expect(await answers(filling, groups.length)).toHaveLength(groups.length)
    const page = request(url, 'GET /v1/groups?limit=200')
    const idle = open(url)
    idle.pause()
    for (let index = 0; index < 20; index++) idle.write(page)
    const slow = open(url)
    slow.write(Buffer.concat(Array.from({ length: 4 }, () => page)))
    const pause = setInterval(() => {
      slow.pause()
      setTimeout(() => slow.resume(), 100)
    }, 150)
    // A client that does not read notices only when it writes that its peer has closed the connection.
    const knock = setInterval(() => idle.write(page), 200)
    onTestFinished(() => {
      clearInterval(pause)
      clearInterval(knock)
    })
    const [received] = await Promise.all([answers(slow, 4), closed(idle)])
    expect(received.map(({ status }) => status)).toEqual([200, 200, 200, 200])
  },
)

describe.each(schemes)('connections over %s', (_name, begin) => {
  const answered = (socket: Socket) => answers(socket, 1).then(([answer]) => answer?.status === 200)

  test.each([
    ['from one address', { maxConnectionsPerAddress: 20 }],
    ['without an identity from one address', { maxUnidentifiedPerAddress: 20 }],
    ['in all', { maxConnections: 20 }],
    ['without an identity in all', { maxConnections: 80 }],
  ])(
    'connections are bounded %s: the oldest unidentified one is closed to make room, and known callers stay',
    async (_which, bound) => {
      const url = await begin(bound)
      const ask = (socket: Socket) => {
        socket.write(request(url, 'GET /v1/groups/none/leader'))
        return answered(socket)
      }
      const known = await connected(url, 4)
      for (const socket of known) socket.write(request(url, 'GET /v1/groups/none/leader'))
      await Promise.all(known.map((socket) => once(socket, 'data')))
      const idle = await connected(url, 40)
      const last = await connected(url, 1)
      await Promise.all(idle.slice(0, 20).map(closed))
      expect(await Promise.all([...known, ...last].map(ask))).toEqual([true, true, true, true, true])
    },
  )

  test('idle connections without an identity are closed, and others are not', async () => {
    const url = await begin({ unidentifiedTimeoutMs: 300 })
    const [known, probe, silent] = (await connected(url, 3)) as [Socket, Socket, Socket]
    known.write(request(url, 'GET /v1/groups/none/leader'))
    await once(known, 'data')
    probe.write(request(url, 'GET /healthz'))
    await Promise.all([once(probe, 'data'), closed(silent)])
    probe.resume()
    await closed(probe)
    known.write(request(url, 'GET /v1/groups/none/leader'))
    expect(await answered(known)).toBe(true)
  })
})

/** Opens connections one after the other, each after the previous one was accepted. */
async function connected(url: string, count: number): Promise<Socket[]> {
  const sockets: Socket[] = []
  for (let index = 0; index < count; index++) {
    const socket = open(url)
    sockets.push(socket)
    await once(socket, url.startsWith('https') ? 'secureConnect' : 'connect')
  }
  return sockets
}
