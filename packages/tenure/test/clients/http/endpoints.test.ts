import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { Clock } from '../../../src/common/clock.ts'
import { TenureError } from '../../../src/common/errors.ts'
import { Endpoints, type Endpoint } from '../../../src/clients/http/endpoints.ts'
import { fakeClock } from '../../../../testing/src/index.ts'

type Answer = (request: IncomingMessage, response: ServerResponse, body: string) => void

interface Server {
  readonly url: string
  readonly asked: string[]
  /** Resolves when the next request has arrived. */
  reached(): Promise<void>
  stop(): Promise<void>
}

/** A server on a real socket. */
async function serve(answer: Answer): Promise<Server> {
  const asked: string[] = []
  let arrived = (): void => undefined
  const server = createServer((request, response) => {
    let body = ''
    request.setEncoding('utf8').on('data', (chunk: string) => (body += chunk))
    request.on('end', () => {
      asked.push(`${request.method} ${request.url} ${body}`)
      answer(request, response, body)
      arrived()
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const stop = async () => {
    if (!server.listening) return
    server.closeAllConnections()
    server.close()
    await once(server, 'close')
  }
  onTestFinished(stop)
  const { port } = server.address() as AddressInfo
  const reached = () => new Promise<void>((resolve) => (arrived = resolve))
  return { url: `http://127.0.0.1:${port}`, asked, reached, stop }
}

const yes: Answer = (_request, response) => void response.end('yes')
const silent: Answer = () => undefined

function endpointsOf(servers: readonly Server[], passing: readonly string[] = []) {
  const clock = fakeClock()
  return { clock, endpoints: new Endpoints(peersOf(servers), clock, passing) }
}

const peersOf = (servers: readonly Server[]) =>
  servers.map(({ url }) => ({ name: url, base: new URL(url), credentials: () => ({ tls: {} }) }))

const call = { signal: new AbortController().signal, timeoutMs: 3_000 }

const ask = async ({ http }: Endpoint, share: { signal: AbortSignal; timeoutMs: number }) => {
  const { text } = await http.request({ method: 'POST', path: '/call', body: { key: 'a' }, ...share })
  return text
}

describe('Endpoints.ask', () => {
  test('ask fails over to the next address when one is down, and prefers that address from then on', async () => {
    const [gone, sound] = [await serve(yes), await serve(yes)]
    const { endpoints } = endpointsOf([gone, sound])
    expect(await endpoints.ask(call, ask)).toBe('yes')
    expect([gone.asked.length, sound.asked.length]).toEqual([1, 0])
    await gone.stop()
    expect(await endpoints.ask(call, ask)).toBe('yes')
    expect(await endpoints.ask(call, ask)).toBe('yes')
    expect(sound.asked).toEqual(['POST /call {"key":"a"}', 'POST /call {"key":"a"}'])
  })

  test('ask tries the next address when one hangs for its share of the deadline', async () => {
    const servers = [await serve(silent), await serve(silent), await serve(yes)]
    const { clock, endpoints } = endpointsOf(servers)
    const answer = endpoints.ask(call, ask)
    await servers[0]?.reached()
    await clock.advance(999)
    expect(servers[1]?.asked).toEqual([])
    const next = servers[1]?.reached()
    await clock.advance(1)
    await next
    await clock.advance(1_000)
    expect(await answer).toBe('yes')
    expect(clock.monotonicMs()).toBe(2_000)
  })

  test('ask accepts a late answer from a slow address and cancels the other requests', async () => {
    const replies: ServerResponse[] = []
    const slow: Answer = (_request, response) => void replies.push(response)
    const servers = [await serve(slow), await serve(slow), await serve(slow)]
    const { clock, endpoints } = endpointsOf(servers)
    const answer = endpoints.ask(call, ask)
    await servers[0]?.reached()
    for (const server of servers.slice(1)) {
      const reached = server.reached()
      await clock.advance(1_000)
      await reached
    }
    await clock.advance(999)
    const left = replies.slice(1).map((reply) => once(reply, 'close'))
    replies[0]?.end('late')
    expect(await answer).toBe('late')
    await Promise.all(left)
    expect(clock.timers).toBe(0)
  })

  test('ask sends nothing after its deadline, even if its timer fires late', async () => {
    const servers = [await serve(silent), await serve(yes)]
    let stalledMs = 0
    const clock = fakeClock()
    // Timers fire late, as they do after a process was paused.
    const stalled: Clock = {
      wallMs: () => clock.wallMs(),
      machineMs: () => clock.machineMs(),
      bootMs: () => clock.bootMs(),
      monotonicMs: () => clock.monotonicMs() + stalledMs,
      random: () => clock.random(),
      randomId: () => clock.randomId(),
      setTimer: (...timer) => clock.setTimer(...timer),
    }
    const endpoints = new Endpoints(peersOf(servers), stalled)
    const answer = endpoints.ask(call, ask).catch((error: unknown) => error)
    await servers[0]?.reached()
    stalledMs = 4_000
    await clock.advance(3_000)
    expect(await answer).toMatchObject({ code: 'TIMEOUT' })
    const none = endpoints.ask({ ...call, timeoutMs: 0 }, ask)
    await expect(none).rejects.toMatchObject({ code: 'TIMEOUT', retryable: true })
    expect(servers.map(({ asked }) => asked.length)).toEqual([1, 0])
  })

  test('ask starts with the next address after a call that the first one did not answer', async () => {
    const servers = [await serve(silent), await serve(yes)]
    const { endpoints } = endpointsOf(servers)
    const controller = new AbortController()
    const answer = endpoints.ask({ ...call, signal: controller.signal }, ask)
    await servers[0]?.reached()
    controller.abort(new Error('late'))
    await expect(answer).rejects.toThrow('late')
    expect(await endpoints.ask(call, ask)).toBe('yes')
    expect(servers[0]?.asked.length).toBe(1)
  })

  test('ask rejects at the deadline when no address answers', async () => {
    const servers = [await serve(silent), await serve(silent)]
    const { clock, endpoints } = endpointsOf(servers)
    const answer = endpoints.ask(call, ask).catch((error: unknown) => error)
    await servers[0]?.reached()
    const next = servers[1]?.reached()
    await clock.advance(1_500)
    await next
    await clock.advance(1_500)
    expect(await answer).toMatchObject({ code: 'TIMEOUT', retryable: true })
    expect(clock.timers).toBe(0)
  })

  test('ask does not try another address after a refusal', async () => {
    const servers = [await serve(yes), await serve(yes)]
    const { endpoints } = endpointsOf(servers)
    const answer = endpoints.ask(call, async (endpoint, share) => {
      await ask(endpoint, share)
      throw new TenureError('UNAUTHORIZED', 'The password is wrong.')
    })
    await expect(answer).rejects.toMatchObject({ code: 'UNAUTHORIZED' })
    expect(servers[1]?.asked).toEqual([])
  })

  test('ask tries the next address after a temporary error, and reports the error if no address succeeds', async () => {
    const servers = [await serve(yes), await serve(yes)]
    await servers[1]?.stop()
    const { endpoints } = endpointsOf(servers, ['WRONG_CLUSTER'])
    const answer = endpoints.ask(call, async (endpoint, share) => {
      await ask(endpoint, share)
      throw new TenureError('WRONG_CLUSTER', 'These are other data.')
    })
    await expect(answer).rejects.toMatchObject({ code: 'WRONG_CLUSTER' })
  })

  test('ask tries no other address after its caller has aborted', async () => {
    const servers = [await serve(silent), await serve(yes)]
    const { endpoints } = endpointsOf(servers)
    const controller = new AbortController()
    const answer = endpoints.ask({ ...call, signal: controller.signal }, ask)
    await servers[0]?.reached()
    controller.abort(new Error('enough'))
    await expect(answer).rejects.toThrow('enough')
    expect(servers[1]?.asked).toEqual([])
  })
})

describe('Endpoints.stream', () => {
  const following: Answer = (_request, response, body) => {
    response.write(`{"created":true}\n{"asked":${body}}\n`)
  }
  const open =
    (signal: AbortSignal) =>
    ({ http }: Endpoint) =>
      http.lines({
        method: 'POST',
        path: '/watch',
        body: { create: { key: 'a' } },
        signal,
        silenceMs: () => 60_000,
        admit: ({ status }) => {
          if (status !== 200) throw new TenureError('BACKEND_UNAVAILABLE', 'It has no leader.', { retryable: true })
        },
      })

  test('stream sends the body of a POST, yields line by line, and ends with its signal', async () => {
    const server = await serve(following)
    const { clock, endpoints } = endpointsOf([server])
    const controller = new AbortController()
    const lines = endpoints.stream(controller.signal, open(controller.signal))
    expect((await lines.next()).value).toBe('{"created":true}')
    expect((await lines.next()).value).toBe('{"asked":{"create":{"key":"a"}}}')
    const waiting = lines.next()
    controller.abort(new Error('enough'))
    await expect(waiting).rejects.toThrow('enough')
    expect(clock.timers).toBe(0)
  })

  test('stream opens at the next address when one refuses it or is down', async () => {
    const servers = [
      await serve(yes),
      await serve((_request, response) => void response.writeHead(503).end()),
      await serve(following),
    ]
    await servers[0]?.stop()
    const { endpoints } = endpointsOf(servers)
    const lines = endpoints.stream(call.signal, open(call.signal))
    expect((await lines.next()).value).toBe('{"created":true}')
    await lines.return()
    const again = endpoints.stream(call.signal, open(call.signal))
    expect((await again.next()).value).toBe('{"created":true}')
    await again.return()
    expect(servers.map(({ asked }) => asked.length)).toEqual([0, 1, 2])
  })

  test('stream rejects with a retryable error when the connection breaks', async () => {
    const server = await serve(following)
    const { endpoints } = endpointsOf([server])
    const lines = endpoints.stream(call.signal, open(call.signal))
    await lines.next()
    await lines.next()
    const waiting = lines.next()
    await server.stop()
    await expect(waiting).rejects.toMatchObject({ code: 'BACKEND_UNAVAILABLE', retryable: true })
  })

  test('stream rejects when a line exceeds the size limit, so that its memory is bounded', async () => {
    const server = await serve((_request, response) => {
      const more = (): void => {
        while (!response.destroyed && response.write('x'.repeat(65_536))) continue
      }
      response.on('drain', more)
      more()
    })
    const { endpoints } = endpointsOf([server])
    await expect(endpoints.stream(call.signal, open(call.signal)).next()).rejects.toMatchObject({
      code: 'BACKEND_UNAVAILABLE',
      message: expect.stringContaining('exceeds the size limit'),
    })
  })
})
