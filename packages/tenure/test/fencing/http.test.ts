import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import { connect, type AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { createFence, httpFence, type FencedHandler, type HttpFenceOptions } from '../../src/fencing/index.ts'
import { makeGate } from './gate.ts'
import { tokensOfTwoOwners } from './shard-tokens.ts'

describe('httpFence', () => {
  const servers: Server[] = []
  afterEach(() => {
    for (const server of servers.splice(0)) {
      server.closeAllConnections()
      server.close()
    }
  })

  async function listen(options: HttpFenceOptions, handler: FencedHandler): Promise<number> {
    const server = createServer(httpFence(options, handler)).listen(0, '127.0.0.1')
    servers.push(server)
    await once(server, 'listening')
    return (server.address() as AddressInfo).port
  }

  const put = (port: number, term: string) =>
    fetch(`http://127.0.0.1:${port}/`, { method: 'PUT', headers: { 'tenure-term': term }, body: 'data' })

  test('httpFence forwards rising and equal terms and answers 409 to lower ones', async () => {
    const seen: number[] = []
    const port = await listen({ fence: createFence({ resource: 'report' }) }, (_request, response, term) => {
      seen.push(term)
      response.end('written')
    })
    for (const term of ['3', '3', '10']) expect((await put(port, term)).status).toBe(200)
    const late = await put(port, '9')
    expect(late.status).toBe(409)
    expect(late.headers.get('content-type')).toMatch(/^application\/json/)
    expect(await late.json()).toEqual({
      ok: false,
      error: 'STALE_TERM',
      message: expect.stringMatching(/"report".*term 9.*term 10/),
    })
    expect(seen).toEqual([3, 3, 10])
  })

  test('httpFence answers 409 to the token of a former owner of a shard, and forwards that of the next one', async () => {
    const { old, next } = await tokensOfTwoOwners()
    const seen: number[] = []
    const port = await listen({ fence: createFence() }, (_request, response, token) => {
      seen.push(token)
      response.end()
    })
    const statuses = []
    for (const token of [old, next, old]) statuses.push((await put(port, String(token))).status)
    expect(statuses).toEqual([200, 200, 409])
    expect(seen).toEqual([old, next])
  })

  test.each([
    ['no term', ''],
    ['an empty term', 'tenure-term:\r\n'],
    ['zero', 'tenure-term: 0\r\n'],
    ['a negative term', 'tenure-term: -1\r\n'],
    ['a sign', 'tenure-term: +5\r\n'],
    ['an exponent', 'tenure-term: 1e3\r\n'],
    ['hexadecimal digits', 'tenure-term: 0x10\r\n'],
    ['a leading zero', 'tenure-term: 05\r\n'],
    ['a fraction', 'tenure-term: 5.0\r\n'],
    ['a space inside', 'tenure-term: 5 5\r\n'],
    ['a list', 'tenure-term: 5, 5\r\n'],
    ['two headers', 'tenure-term: 5\r\ntenure-term: 5\r\n'],
    ['two headers that differ in case', 'tenure-term: 5\r\nTenure-Term: 6\r\n'],
    ['words', 'tenure-term: NaN\r\n'],
    ['infinity', 'tenure-term: Infinity\r\n'],
    ['2^53', 'tenure-term: 9007199254740992\r\n'],
    ['2^53 + 1', 'tenure-term: 9007199254740993\r\n'],
    ['a number of many digits', `tenure-term: ${'9'.repeat(400)}\r\n`],
    ['digits of another script', 'tenure-term: \u0665\r\n'],
    ['an underscore', 'tenure-term: 1_0\r\n'],
  ])('httpFence answers 400 to %s and keeps its highest term', async (_name, header) => {
    const fence = createFence({ highestTerm: 2 })
    const port = await listen({ fence }, () => expect.unreachable('the handler was called'))
    const reply = await exchange(port, `GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n${header}\r\n`)
    expect(reply).toMatch(/^HTTP\/1\.1 400 /)
    const body = JSON.parse(reply.slice(reply.indexOf('\r\n\r\n')))
    expect(body).toEqual({ ok: false, error: 'INVALID_REQUEST', message: expect.stringContaining('tenure-term') })
    expect(fence.highestTerm).toBe(2)
  })

  test('httpFence accepts the highest possible term', async () => {
    const fence = createFence()
    const port = await listen({ fence }, (_request, response) => void response.end())
    expect((await put(port, '9007199254740991')).status).toBe(200)
    expect(fence.highestTerm).toBe(Number.MAX_SAFE_INTEGER)
  })

  test('httpFence refuses a write whose body arrives after a newer leader has written', async () => {
    const fence = createFence()
    let saved = ''
    const arrived = makeGate()
    const port = await listen({ fence }, async (request, response, term) => {
      if (term === 4) arrived.open()
      const body = await text(request)
      await fence.run(term, () => {
        saved = body
      })
      response.end('saved')
    })
    const paused = connect(port, '127.0.0.1')
    paused.write('PUT / HTTP/1.1\r\nhost: a\r\nconnection: close\r\ntenure-term: 4\r\ncontent-length: 3\r\n\r\nol')
    await arrived.opened
    expect((await put(port, '5')).status).toBe(200)
    paused.write('d')
    const reply = await text(paused)
    expect(reply).toMatch(/^HTTP\/1\.1 409 /)
    expect(reply).toContain('"error":"STALE_TERM"')
    expect(saved).toBe('data')
  })

  test('httpFence answers 500 when a handler fails, reports the cause only to onError, and continues', async () => {
    const errors: unknown[] = []
    const failure = new Error('the password is hunter2')
    const onError = (error: unknown) => void errors.push(error)
    const port = await listen({ fence: createFence(), onError }, (_request, response) => {
      response.setHeader('content-length', '4096')
      throw failure
    })
    const reply = await put(port, '5')
    expect(reply.status).toBe(500)
    expect(await reply.json()).toEqual({
      ok: false,
      error: 'WORK_FAILED',
      message: expect.not.stringContaining('hunter2'),
    })
    expect(errors).toEqual([failure])
    expect((await put(port, '5')).status).toBe(500)
  })

  test('httpFence answers 500 when the handler fails and onError throws or rejects, and neither error ends the process', async () => {
    const warned = vi.spyOn(process, 'emitWarning').mockImplementation(() => undefined)
    onTestFinished(() => warned.mockRestore())
    const mistakes: readonly (() => never)[] = [
      () => {
        throw new Error('onError throws')
      },
      () => Promise.reject(new Error('onError rejects')) as never,
    ]
    for (const onError of mistakes) {
      const port = await listen({ fence: createFence(), onError }, () => Promise.reject(new Error('the handler fails')))
      expect((await put(port, '5')).status).toBe(500)
    }
    // An unhandled rejection would fail this run.
    await vi.waitFor(() => expect(warned.mock.calls.map(([error]) => String(error))).toHaveLength(2))
  })

  test('httpFence cuts off an answer that has already begun when its handler fails', async () => {
    const port = await listen({ fence: createFence(), onError: () => {} }, async (_request, response) => {
      response.write('the first half')
      throw new Error('and no second')
    })
    await expect(put(port, '5').then((reply) => reply.text())).rejects.toThrow()
  })

  test('httpFence survives a client that disconnects in the middle of its body', async () => {
    const failed = makeGate()
    const arrived = makeGate()
    const port = await listen({ fence: createFence(), onError: failed.open }, async (request, response) => {
      arrived.open()
      await text(request)
      response.end('saved')
    })
    const client = connect(port, '127.0.0.1')
    client.write('PUT / HTTP/1.1\r\nhost: a\r\ntenure-term: 4\r\ncontent-length: 3\r\n\r\nol')
    await arrived.opened
    client.resetAndDestroy()
    await failed.opened
    expect((await put(port, '4')).status).toBe(200)
  })

  test('httpFence emits a warning when a handler fails and there is no onError', async () => {
    const port = await listen({ fence: createFence() }, () => Promise.reject(new Error('a lonely failure')))
    const warned = once(process, 'warning')
    expect((await put(port, '5')).status).toBe(500)
    const [warning] = await warned
    expect(warning).toMatchObject({ message: 'a lonely failure' })
  })
})

async function exchange(port: number, request: string): Promise<string> {
  const socket = connect(port, '127.0.0.1')
  socket.write(request)
  return text(socket)
}
