import { describe, expect, onTestFinished, test } from 'vitest'
import { ApiError } from '../../../src/clients/kubernetes/api-error.ts'
import { follow, listAll, type Followed } from '../../../src/clients/kubernetes/list-watch.ts'
import { fakeClock } from '../../../../testing/src/index.ts'
import { answerOf, chunkedHead, chunkOf, clientFor, serve, type Exchange, type TlsServer } from './tls-server.ts'

const path = '/things'
const objectOf = (version: number) => ({ metadata: { name: 'a', resourceVersion: String(version) } })
const eventOf = (type: string, object: unknown) => chunkOf(`${JSON.stringify({ type, object })}\n`)
const gone = { kind: 'Status', code: 410, reason: 'Expired', message: 'too old' }
const failed = (answer: { status: number; body: unknown }) => new ApiError('Cannot list things', answer)

const queryOf = ({ line }: Exchange) => Object.fromEntries(new URLSearchParams(line.split('?')[1]))
/** The versions at which the watches of the server began. */
const begins = ({ exchanges }: TlsServer) =>
  exchanges.filter(({ line }) => line.includes('watch=1')).map((exchange) => queryOf(exchange)['resourceVersion'])

describe('listAll', () => {
  // With a stopped clock, a busy machine does not reach the deadline.
  const list = (server: TlsServer) =>
    listAll(clientFor(server.connection, fakeClock()), { path, failed, signal: new AbortController().signal })

  test('listAll reads page after page', async () => {
    const server = await serve((exchange) => {
      const at = Number(queryOf(exchange)['continue'] ?? 0)
      const metadata = { resourceVersion: '7', ...(at < 2 && { continue: String(at + 1) }) }
      exchange.socket.write(answerOf({ metadata, items: [at] }))
    })
    expect(await list(server)).toEqual({ state: [0, 1, 2], from: '7' })
    expect(server.exchanges.map((exchange) => queryOf(exchange)['limit'])).toEqual(['100', '100', '100'])
  })

  test('listAll restarts when the server has lost a page, but not forever', async () => {
    let forgets = 2
    const server = await serve((exchange) => {
      if (queryOf(exchange)['continue'] === undefined) {
        const metadata = { resourceVersion: '7', continue: 'next' }
        return void exchange.socket.write(answerOf({ metadata, items: [1] }))
      }
      if (forgets-- > 0) return void exchange.socket.write(answerOf(gone, { status: '410 Gone' }))
      exchange.socket.write(answerOf({ metadata: { resourceVersion: '7' }, items: [2] }))
    })
    expect(await list(server)).toEqual({ state: [1, 2], from: '7' })
    forgets = 3
    await expect(list(server)).rejects.toMatchObject({ status: 410, retryable: true })
  })

  test('listAll requests smaller pages when an answer exceeds the size limit', async () => {
    const server = await serve((exchange) => {
      const limit = Number(queryOf(exchange)['limit'])
      const items = Array.from({ length: limit }, () => 'x'.repeat(2 ** 20))
      exchange.socket.write(answerOf({ metadata: { resourceVersion: '7' }, items }))
    })
    expect((await list(server)).state).toHaveLength(1)
    expect(server.exchanges.map((exchange) => queryOf(exchange)['limit'])).toEqual(['100', '10', '1'])
  })

  test.each([{}, { items: [] }, { items: 'none', metadata: { resourceVersion: '7' } }])(
    'listAll rejects an answer that is not a list: %j',
    async (body) => {
      const server = await serve(({ socket }) => void socket.write(answerOf(body)))
      await expect(list(server)).rejects.toThrow('Cannot list things')
    },
  )
})

describe('follow', () => {
  /** Follows watches that the test writes. Each is opened when the previous one has ended. */
  const followOn = async (server: TlsServer, clock = fakeClock()) => {
    const ending = new AbortController()
    onTestFinished(() => ending.abort())
    let looks = 0
    const changes = follow<number>({
      client: clientFor(server.connection, clock),
      clock,
      path,
      signal: ending.signal,
      look: async () => ({ state: ++looks, from: `look-${looks}` }),
      silenceMs: () => 90_000,
    })
    onTestFinished(() => void changes.return())
    const next = async () => (await changes.next()).value as Followed<number> | undefined
    expect(await next()).toEqual({ type: 'all', state: 1 })
    return { clock, next }
  }
  /** A server whose watches the test answers, one after another. */
  const serveWatches = async (...answers: ((exchange: Exchange) => unknown)[]) =>
    serve((exchange) => {
      const answer = answers.shift()
      if (answer) answer(exchange)
      else exchange.socket.write(chunkedHead)
    })
  const versionOf = (change: Followed<number> | undefined) =>
    change && change.type !== 'all' ? change.object['metadata'] : change

  const begun = (type: string, version: number) => (exchange: Exchange) =>
    exchange.socket.write(Buffer.concat([Buffer.from(chunkedHead), eventOf(type, objectOf(version))]))
  const exchangeOf = (server: TlsServer, index: number) => expect.poll(() => server.exchanges[index]).toBeDefined()

  test('follow resumes at the last change or bookmark after the connection was cut', async () => {
    const server = await serveWatches(begun('ADDED', 3), begun('BOOKMARK', 9))
    const { clock, next } = await followOn(server)
    expect(versionOf(await next())).toEqual(objectOf(3).metadata)
    const later = next()
    await clock.advance(5_000)
    server.exchanges[0]?.reset()
    await exchangeOf(server, 1)
    await clock.advance(5_000)
    // The second watch ends normally.
    server.exchanges[1]?.socket.write('0\r\n\r\n')
    await exchangeOf(server, 2)
    expect(begins(server)).toEqual(['look-1', '3', '9'])
    server.exchanges[2]?.socket.write(eventOf('DELETED', objectOf(10)))
    expect(await later).toMatchObject({ type: 'deleted' })
    expect(queryOf(server.exchanges.at(-1) as Exchange)).toMatchObject({ allowWatchBookmarks: 'true' })
  })

  test.each([
    ['in an answer', (exchange: Exchange) => exchange.socket.write(answerOf(gone, { status: '410 Gone' }))],
    [
      'in an event',
      (exchange: Exchange) => exchange.socket.write(Buffer.concat([Buffer.from(chunkedHead), eventOf('ERROR', gone)])),
    ],
  ])('follow reads the state again when its history is gone, reported %s', async (_how, answer) => {
    const server = await serveWatches(answer)
    const { next } = await followOn(server)
    expect(await next()).toEqual({ type: 'all', state: 2 })
    next().catch(() => undefined)
    await exchangeOf(server, 1)
    expect(begins(server)).toEqual(['look-1', 'look-2'])
  })

  test('follow rejects when its history is gone every time', async () => {
    const answer = (exchange: Exchange) => exchange.socket.write(answerOf(gone, { status: '410 Gone' }))
    const { next } = await followOn(await serveWatches(answer, answer))
    await next()
    await expect(next()).rejects.toMatchObject({ status: 410 })
  })

  test('follow reads the state again after the watch timeout', async () => {
    const server = await serveWatches(begun('ADDED', 3))
    const { clock, next } = await followOn(server)
    await next()
    const again = next()
    await clock.advance(89_999)
    expect(clock.timers).toBe(1)
    await clock.advance(1)
    expect(await again).toEqual({ type: 'all', state: 2 })
    next().catch(() => undefined)
    await exchangeOf(server, 1)
    expect(begins(server)).toEqual(['look-1', 'look-2'])
  })

  test('follow ends when a watch ends early, so that the caller decides when to retry', async () => {
    const { next } = await followOn(await serveWatches(({ socket }) => socket.write(`${chunkedHead}0\r\n\r\n`)))
    expect(await next()).toBeUndefined()
  })

  test.each([
    ['an early connection loss', (exchange: Exchange) => exchange.reset(), { code: 'BACKEND_UNAVAILABLE' }],
    [
      'a refused watch',
      ({ socket }: Exchange) => socket.write(answerOf({ kind: 'Status' }, { status: '403 Forbidden' })),
      { status: 403 },
    ],
    [
      'an invalid object',
      ({ socket }: Exchange) => socket.write(Buffer.concat([Buffer.from(chunkedHead), eventOf('ADDED', { a: 1 })])),
      { code: 'RECORD_INVALID' },
    ],
  ])('follow rejects after %s', async (_what, answer, expected) => {
    const { next } = await followOn(await serveWatches(answer))
    await expect(next()).rejects.toMatchObject(expected)
  })
})
