import { getEventListeners } from 'node:events'
import { describe, expect, test, vi } from 'vitest'
import { fakeClock } from '../../../../testing/src/index.ts'
import { hangingSteps } from './hanging-steps.ts'
import { answerOf, clientFor, serve } from './tls-server.ts'

const { signal } = new AbortController()
const get = { method: 'GET', path: '/a' } as const
const soon = { timeout: 5_000, interval: 5 }

/** Returns the reason with which a promise rejects and how long that took. */
async function failure(
  promise: Promise<unknown>,
  startedMs = performance.now(),
): Promise<{ reason: unknown; afterMs: number }> {
  const reason = await promise.then(
    () => expect.unreachable(),
    (error: unknown) => error,
  )
  return { reason, afterMs: performance.now() - startedMs }
}

describe.each(Object.entries(hangingSteps))('%s', (_name, hang) => {
  test('a request to a server that hangs ends at the deadline', async () => {
    const { connection, open } = await hang()
    const client = clientFor(connection)
    const startedMs = performance.now()
    const { reason, afterMs } = await failure(client.request({ ...get, signal, timeoutMs: 200 }), startedMs)
    expect(reason).toMatchObject({ code: 'TIMEOUT', retryable: true })
    expect((reason as Error).message).toBe(`The API server at ${connection.server} did not answer GET within 200 ms.`)
    expect(afterMs).toBeGreaterThan(190)
    expect(afterMs).toBeLessThan(2_000)
    if (open) await vi.waitUntil(() => open() === 0, soon)
  })

  test("a request to a server that hangs ends at once with the caller's reason when it is aborted", async () => {
    const { connection, reached, open } = await hang()
    const clock = fakeClock()
    const caller = new AbortController()
    const asked = clientFor(connection, clock).request({ ...get, signal: caller.signal })
    asked.catch(() => undefined)
    await reached()
    const reason = new Error('enough')
    caller.abort(reason)
    const failed = await failure(asked)
    expect(failed.reason).toBe(reason)
    expect(failed.afterMs).toBeLessThan(1_000)
    expect(getEventListeners(caller.signal, 'abort')).toEqual([])
    expect(clock.timers).toBe(0)
    if (open) await vi.waitUntil(() => open() === 0, soon)
  })

  test("a watch of a server that hangs ends with the caller's reason when it is aborted", async () => {
    const { connection, reached, open } = await hang()
    const clock = fakeClock()
    const caller = new AbortController()
    const watch = clientFor(connection, clock).watch({ path: '/a', signal: caller.signal, silenceMs: () => 60_000 })
    const next = watch.next()
    next.catch(() => undefined)
    await reached()
    const reason = new Error('enough')
    caller.abort(reason)
    const failed = await failure(next)
    expect(failed.reason).toBe(reason)
    expect(failed.afterMs).toBeLessThan(1_000)
    expect(getEventListeners(caller.signal, 'abort')).toEqual([])
    expect(clock.timers).toBe(0)
    if (open) await vi.waitUntil(() => open() === 0, soon)
  })
})

test('a request times out after ten seconds by default', async () => {
  const server = await serve(() => undefined)
  const clock = fakeClock()
  const failed = failure(clientFor(server.connection, clock).request({ ...get, signal }))
  await vi.waitUntil(() => server.exchanges.length === 1, soon)
  await clock.advance(9_999)
  expect(clock.timers).toBe(1)
  await clock.advance(1)
  expect((await failed).reason).toMatchObject({ code: 'TIMEOUT' })
})

test('a watch that never opens times out after ten seconds', async () => {
  const server = await serve(() => undefined)
  const clock = fakeClock()
  const watch = clientFor(server.connection, clock).watch({ path: '/a', signal, silenceMs: () => 60_000 })
  const failed = failure(watch.next())
  await vi.waitUntil(() => server.exchanges.length === 1, soon)
  await clock.advance(10_000)
  expect((await failed).reason).toMatchObject({ code: 'TIMEOUT', retryable: true })
  expect(clock.timers).toBe(0)
})

test('a request that the server does not read ends at the deadline', async () => {
  const server = await serve(() => undefined, { reads: false })
  const clock = fakeClock()
  // The body is larger than all buffers in between.
  const body = { text: 'x'.repeat(2 ** 24) }
  const failed = failure(clientFor(server.connection, clock).request({ method: 'PUT', path: '/a', body, signal }))
  await vi.waitUntil(() => server.sockets.size === 1, soon)
  await clock.advance(10_000)
  expect((await failed).reason).toMatchObject({ code: 'TIMEOUT' })
  await vi.waitUntil(() => server.sockets.size === 0, soon)
})

test.each([
  ['an error', new Error('enough')],
  ['a text', 'enough'],
  ['null', null],
])('nothing is sent when the signal has already aborted with %s', async (_what, reason) => {
  const server = await serve(({ socket }) => socket.write(answerOf({})))
  const client = clientFor(server.connection)
  const aborted = AbortSignal.abort(reason)
  const call = await client.request({ ...get, signal: aborted }).catch((error: unknown) => ({ error }))
  expect(call).toEqual({ error: reason })
  const watch = client.watch({ path: '/a', signal: aborted, silenceMs: () => 60_000 })
  expect(await watch.next().catch((error: unknown) => ({ error }))).toEqual({ error: reason })
  expect(server.opened).toBe(0)
})

test('an abort after the answer has no effect, and the connection is kept', async () => {
  const server = await serve(({ socket }) => socket.write(answerOf({})))
  const clock = fakeClock()
  const client = clientFor(server.connection, clock)
  const caller = new AbortController()
  expect((await client.request({ ...get, signal: caller.signal })).status).toBe(200)
  expect(getEventListeners(caller.signal, 'abort')).toEqual([])
  expect(clock.timers).toBe(0)
  caller.abort()
  expect((await client.request({ ...get, signal })).status).toBe(200)
  expect(server.opened).toBe(1)
})

test('an aborted request does not affect other requests', async () => {
  const server = await serve(({ socket, line }) => {
    if (line === 'GET /hangs') return
    caller.abort()
    setImmediate(() => socket.write(answerOf({ line })))
  })
  const client = clientFor(server.connection)
  const caller = new AbortController()
  const hanging = failure(client.request({ method: 'GET', path: '/hangs', signal: caller.signal }))
  await vi.waitUntil(() => server.exchanges.length === 1, soon)
  expect(await client.request({ method: 'GET', path: '/goes', signal })).toMatchObject({ body: { line: 'GET /goes' } })
  expect((await hanging).reason).toBe(caller.signal.reason)
})
