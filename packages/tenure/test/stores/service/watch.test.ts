import type { ServerResponse } from 'node:http'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import type { Clock } from '../../../src/common/clock.ts'
import { Elector } from '../../../src/engine/elector.ts'
import { fakeClock } from '../../../../testing/src/index.ts'
import { cluster, fakeService, json, leader, storeOf } from './fake-service.ts'

const soon = { timeout: 5_000, interval: 5 }

/** A service whose streams the test writes. */
async function streams({ begin = 'retry: 2000\n\n' } = {}) {
  const open: ServerResponse[] = []
  const service = await fakeService((response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8', ...cluster })
    response.write(begin)
    open.push(response)
  })
  return {
    service,
    /** The newest stream, once this many have been opened. */
    async nth(count: number): Promise<ServerResponse> {
      await vi.waitUntil(() => open.length >= count, soon)
      return open.at(-1) ?? expect.unreachable()
    },
  }
}

function event(data: object, id?: string): string {
  const text = JSON.stringify({ group_id: 'report', ts_ms: 1, ...data })
  return `${id === undefined ? '' : `id: ${id}\n`}data: ${text}\n\n`
}

const state = (change: object = {}) =>
  event({ type: 'STATE', leader: { ...leader, ...change }, highest_term: 7 }, 'f.1')

function watch(url: string | string[], clock?: Clock, holder?: string) {
  const stop = new AbortController()
  const states = storeOf({ url, clock }).watch?.('report', { signal: stop.signal, holder }) ?? expect.unreachable()
  const iterator = states[Symbol.asyncIterator]()
  onTestFinished(() => stop.abort())
  return { next: () => iterator.next(), stop }
}

/** A clock that records the delays of its timers. */
function tellingClock() {
  const clock = fakeClock()
  const delays: number[] = []
  return {
    ...clock,
    setTimer(delayMs: number, callback: () => void) {
      delays.push(delayMs)
      return clock.setTimer(delayMs, callback)
    },
    /** Resolves once a watch pauses before it opens another stream. */
    pause: () => vi.waitUntil(() => delays.some((ms) => ms <= 1_000), soon),
    delays,
  }
}

describe('watch of the service store', () => {
  test("a candidate's watch names the candidate, so that the service shows a live standby", async () => {
    const service = await fakeService((response, { line }) => {
      if (line.startsWith('POST')) return json(200, { is_leader: false, leader, highest_term: 7 })(response)
      response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8', ...cluster })
      response.write(state())
    })
    const elector = new Elector({ store: storeOf({ url: service.url }), election: 'report', identity: 'ada & bob' })
    elector.start()
    await vi.waitFor(() => {
      const lines = service.asked.map(({ line }) => line)
      expect(lines).toContain('GET /v1/groups/report/watch?renewals=true&node_id=ada%20%26%20bob')
    }, soon)
    await elector.stop()
  })

  test('a watch requests renewals and yields each change as a record', async () => {
    const { service, nth } = await streams()
    const { next } = watch(service.url)
    const first = next()
    const stream = await nth(1)
    expect(service.asked[0]).toMatchObject({
      line: 'GET /v1/groups/report/watch?renewals=true',
      headers: { accept: 'text/event-stream' },
    })
    stream.write(state())
    expect((await first).value).toMatchObject({ term: 7, version: 'v7', released: false })
    stream.write(event({ type: 'RENEWED', leader: { ...leader, version: 'v8' } }))
    expect((await next()).value).toMatchObject({ version: 'v8', released: false })
    stream.write(event({ type: 'LEADER_LOST', reason: 'expired', leader: null, previous_leader: leader }, 'f.2'))
    expect((await next()).value).toMatchObject({ version: 'v7', released: true })
    stream.write(event({ type: 'LEADER_CHANGED', leader: { ...leader, term: 8, version: 'w1' } }, 'f.3'))
    expect((await next()).value).toMatchObject({ term: 8, released: false })
    stream.write(event({ type: 'LEADER_LOST', reason: 'deleted', leader: null, previous_leader: leader }, 'f.4'))
    expect(await next()).toEqual({ done: false, value: undefined })
  })

  test('a watch begins with undefined if there was never a leader', async () => {
    const { service, nth } = await streams()
    const { next } = watch(service.url)
    const first = next()
    ;(await nth(1)).write(event({ type: 'STATE', leader: null, highest_term: 0 }, 'f.1'))
    expect(await first).toEqual({ done: false, value: undefined })
  })

  test('a watch skips unknown events, events of other groups, and states it has already shown', async () => {
    const { service, nth } = await streams()
    const { next } = watch(service.url)
    const first = next()
    const stream = await nth(1)
    stream.write(state())
    await first
    stream.write(': still here\n\nevent: odd\ndata: {"type":"ODD"}\n\n')
    stream.write(event({ type: 'GAP' }, 'f.2') + state())
    stream.write(event({ type: 'LEADER_CHANGED', group_id: 'others', leader: { ...leader, version: 'x' } }, 'f.3'))
    stream.write(event({ type: 'RENEWED', leader: { ...leader, version: 'v8' } }).replaceAll('\n', '\r\n'))
    expect((await next()).value).toMatchObject({ version: 'v8' })
  })

  test('a watch that is interrupted after a while resumes at its cursor, after a random delay', async () => {
    const clock = tellingClock()
    const { service, nth } = await streams()
    const { next } = watch(service.url, clock)
    const first = next()
    const stream = await nth(1)
    stream.write(state())
    await first
    await clock.advance(6_000)
    const second = next()
    stream.destroy()
    await clock.pause()
    expect(service.asked).toHaveLength(1)
    await clock.advance(1_000)
    const resumed = await nth(2)
    expect(service.asked[1]?.headers['last-event-id']).toBe('f.1')
    resumed.write(event({ type: 'LEADER_CHANGED', leader: { ...leader, term: 8, version: 'w1' } }, 'f.2'))
    expect((await second).value).toMatchObject({ term: 8 })
  })

  test('a watch that is interrupted early rejects, so that its reader decides when to retry', async () => {
    const { service, nth } = await streams()
    const { next } = watch(service.url)
    const first = next()
    const stream = await nth(1)
    stream.write(state())
    await first
    const second = next()
    stream.destroy()
    await expect(second).rejects.toMatchObject({ code: 'BACKEND_UNAVAILABLE', retryable: true })
    expect(service.asked).toHaveLength(1)
  })

  test('a watch that was too slow ends without an error', async () => {
    const { service, nth } = await streams()
    const { next } = watch(service.url)
    const first = next()
    const stream = await nth(1)
    stream.write(state())
    await first
    stream.end(`data: ${JSON.stringify({ type: 'TOO_SLOW', ts_ms: 1 })}\n\n`)
    expect(await next()).toEqual({ done: true, value: undefined })
  })

  test('a watch without a heartbeat for 40 s is reopened', async () => {
    const clock = tellingClock()
    const { service, nth } = await streams()
    const { next } = watch(service.url, clock)
    const first = next()
    const stream = await nth(1)
    stream.write(state())
    await first
    const second = next()
    await clock.advance(39_000)
    const before = clock.delays.length
    stream.write(': still here\n\n')
    // The heartbeat has two lines, and each restarts the timeout.
    await vi.waitUntil(() => clock.delays.length === before + 2, soon)
    expect(clock.delays.slice(before)).toEqual([40_000, 40_000])
    await clock.advance(39_000)
    expect(service.asked).toHaveLength(1)
    await clock.advance(1_000)
    await clock.pause()
    await clock.advance(1_000)
    const resumed = await nth(2)
    expect(service.asked[1]?.headers['last-event-id']).toBe('f.1')
    resumed.write(event({ type: 'RENEWED', leader: { ...leader, version: 'v9' } }))
    expect((await second).value).toMatchObject({ version: 'v9' })
  })

  test('a watch that a proxy buffers fails after 10 s, so that the elector polls', async () => {
    const clock = tellingClock()
    const { service, nth } = await streams({ begin: ':\n' })
    const { next } = watch(service.url, clock)
    const first = next()
    await nth(1)
    // One timer for the head, one for the first line, and one for the event that this line begins.
    await vi.waitUntil(() => clock.delays.length === 3, soon)
    const failed = expect(first).rejects.toMatchObject({ code: 'TIMEOUT' })
    await clock.advance(10_000)
    await failed
    expect(service.asked).toHaveLength(1)
  })

  test('a watch fails and is not retried soon when the response is not an event stream', async () => {
    const clock = fakeClock()
    const service = await fakeService(json(200, { events: [], cursor: 'f.1' }))
    const store = storeOf({ url: service.url, clock })
    const { signal } = new AbortController()
    const next = () => store.watch?.('report', { signal })[Symbol.asyncIterator]().next()
    await expect(next()).rejects.toThrow(/no event stream \(check for a proxy in between\)/)
    await clock.advance(299_000)
    expect(await next()).toEqual({ done: true, value: undefined })
    expect(service.asked).toHaveLength(1)
    await clock.advance(1_000)
    await expect(next()).rejects.toThrow(/no event stream/)
  })

  test('a watch that the service refuses with RATE_LIMITED is retried after the requested time, or after five minutes at most', async () => {
    const clock = fakeClock()
    const full = { ok: false, error: 'RATE_LIMITED', message: 'Too many watch already.', retry_after_ms: 5_000 }
    const service = await fakeService(json(429, full))
    const store = storeOf({ url: service.url, clock })
    const { signal } = new AbortController()
    const next = () => store.watch?.('report', { signal })[Symbol.asyncIterator]().next()
    await expect(next()).rejects.toMatchObject({ code: 'RATE_LIMITED' })
    await clock.advance(4_999)
    expect(await next()).toEqual({ done: true, value: undefined })
    await clock.advance(1)
    service.answer = json(429, { ...full, retry_after_ms: 2 ** 40 })
    await expect(next()).rejects.toMatchObject({ code: 'RATE_LIMITED' })
    await clock.advance(300_000)
    await expect(next()).rejects.toMatchObject({ code: 'RATE_LIMITED' })
    expect(service.asked).toHaveLength(3)
  })

  test('a watch whose cursor the service does not know starts again with the current state', async () => {
    const clock = tellingClock()
    const { service, nth } = await streams()
    const { next } = watch(service.url, clock)
    const first = next()
    const stream = await nth(1)
    stream.write(state())
    await first
    await clock.advance(6_000)
    const second = next()
    const follow = service.answer
    service.answer = (response, asked) =>
      asked.headers['last-event-id'] === undefined
        ? follow(response, asked)
        : json(400, {
            ok: false,
            error: 'INVALID_REQUEST',
            message: 'The cursor is not from this service. Watch again without a cursor.',
          })(response)
    stream.end()
    await clock.pause()
    await clock.advance(1_000)
    ;(await nth(2)).write(state({ version: 'v9' }))
    expect((await second).value).toMatchObject({ version: 'v9' })
    expect(service.asked.map(({ headers }) => headers['last-event-id'])).toEqual([undefined, 'f.1', undefined])
  })

  test('a watch rejects the stream of another cluster', async () => {
    const { service, nth } = await streams()
    const strange = await fakeService((response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream', 'tenure-cluster-id': 'cluster-two' })
      response.write(state({ version: 'strange' }))
    })
    const clock = tellingClock()
    const { next } = watch([service.url, strange.url], clock)
    const first = next()
    const stream = await nth(1)
    stream.write(state())
    await first
    await clock.advance(6_000)
    const second = next()
    service.answer = (response) => response.destroy()
    stream.destroy()
    await clock.pause()
    await clock.advance(1_000)
    await expect(second).rejects.toMatchObject({ code: 'WRONG_CLUSTER' })
  })

  test.each([
    ['no leader', { leader: undefined }],
    ['an invalid term', { leader: { ...leader, term: 2 ** 53 } }],
  ])('a watch that receives %s fails', async (_what, change) => {
    const { service, nth } = await streams()
    const { next } = watch(service.url)
    const first = next()
    ;(await nth(1)).write(event({ type: 'STATE', highest_term: 7, ...change }, 'f.1'))
    await expect(first).rejects.toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
  })

  test('a watch ends when its store is closed', async () => {
    const { service, nth } = await streams()
    const store = storeOf({ url: service.url })
    const { signal } = new AbortController()
    const next = store.watch?.('report', { signal })[Symbol.asyncIterator]().next()
    await nth(1)
    await store.close?.()
    expect(await next).toEqual({ done: true, value: undefined })
  })
})
