/** Changes as they happen: Server-Sent Events for those who ask for them, long polls for all others. */
import { mayRead } from '../access.ts'
import { Type } from '@sinclair/typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { ServiceError } from '../errors.ts'
import type { Change, Entry } from '../feed.ts'
import * as schema from '../schemas.ts'
import type { App, Service } from '../service.ts'
import { leadershipOf } from '../views.ts'

const mostGroups = 1_000
const heartbeatMs = 15_000
/** What may wait in a reader's socket before it is too slow. */
const slowReaderBytes = 256 * 1024

const query = {
  cursor: Type.Optional(Type.String({ maxLength: 64, description: 'Where to go on; from an earlier answer.' })),
  renewals: Type.Optional(Type.Union([Type.Literal('true'), Type.Literal('false')])),
  wait_ms: Type.Optional(Type.String({ pattern: '^[0-9]{1,5}$', description: 'Of a long poll: at most 60000.' })),
}

export function watchRoutes(app: App, service: Service): void {
  const response = { 200: schema.WatchAnswer, ...schema.failures(400, 401, 403, 429, 503) }
  app.get(
    '/v1/groups/:group_id/watch',
    {
      schema: {
        operationId: 'watch',
        summary: 'Changes of one group: text/event-stream, or a long poll.',
        params: schema.GroupParams,
        querystring: Type.Object(query, { additionalProperties: false }),
        response,
      },
    },
    (request, reply) => watch(service, request, reply, [request.params.group_id], request.query),
  )
  app.get(
    '/v1/watch',
    {
      schema: {
        operationId: 'watchMany',
        summary: 'Changes of many groups.',
        querystring: Type.Object(
          { ...query, groups: Type.String({ maxLength: 100_000, description: 'Their ids, with commas in between.' }) },
          { additionalProperties: false },
        ),
        response,
      },
    },
    (request, reply) => {
      const groups = [...new Set(request.query.groups.split(','))]
      const pattern = new RegExp(schema.groupIdPattern)
      if (groups.length > mostGroups || !groups.every((group) => pattern.test(group))) {
        throw new ServiceError(
          'INVALID_REQUEST',
          `groups must be 1 to ${mostGroups} ids of groups, with commas in between.`,
        )
      }
      return watch(service, request, reply, groups, request.query)
    },
  )
}

interface Query {
  readonly cursor?: string
  readonly renewals?: 'true' | 'false'
  readonly wait_ms?: string
}

function watch(service: Service, request: FastifyRequest, reply: FastifyReply, groups: string[], query: Query) {
  for (const group of groups) mayRead(request.identity, group)
  if (service.hub.isFull) {
    throw new ServiceError('RATE_LIMITED', 'Too many watch already.', { details: { retry_after_ms: 5_000 } })
  }
  const header = request.headers['last-event-id']
  const cursor = query.cursor ?? (typeof header === 'string' && header !== '' ? header : undefined)
  const missed = cursor === undefined ? undefined : service.hub.feed.after(cursor)
  if (cursor !== undefined && missed === undefined) {
    throw new ServiceError('INVALID_REQUEST', 'This cursor was never given out.')
  }
  const renewals = query.renewals === 'true'
  const streams = request.headers.accept?.includes('text/event-stream') ?? false
  const start = { groups, renewals, missed }
  return streams ? stream(service, reply, start) : poll(service, request, start, Number(query.wait_ms ?? 25_000))
}

interface Start {
  readonly groups: readonly string[]
  readonly renewals: boolean
  readonly missed: ReturnType<Service['hub']['feed']['after']>
}

/** What a reader must be told before anything new: what it missed, or how things stand. */
async function beginning(
  service: Service,
  { groups, missed }: Start,
): Promise<{ cursor: string; data: schema.WatchedEvent }[]> {
  const { hub, state, clock } = service
  if (missed && 'entries' in missed) {
    const wanted = new Set(groups)
    return missed.entries
      .filter(({ groupId }) => wanted.has(groupId))
      .map((entry) => ({ cursor: hub.feed.cursorAfter(entry.sequence), data: hub.describe(entry) }))
  }
  // Taken before the states are read: what happens meanwhile is told twice rather than never.
  const { cursor } = hub.feed
  const states = await Promise.all(
    groups.map(async (group_id) => {
      const verdict = await state.leader(group_id)
      return {
        cursor,
        data: { type: 'STATE', group_id, ...leadershipOf(verdict, clock.wallMs()), ts_ms: clock.wallMs() },
      }
    }),
  )
  return missed ? [{ cursor, data: { type: 'GAP', ts_ms: clock.wallMs() } }, ...states] : states
}

async function stream(service: Service, reply: FastifyReply, start: Start): Promise<void> {
  const { hub, clock } = service
  const early: string[] = []
  let write = (text: string) => void early.push(text)
  const leave = hub.subscribe(start.groups, {
    wantsRenewals: start.renewals,
    tell: (_change, text, cursor) => write(frame(text, cursor)),
  })
  try {
    const first = await beginning(service, start)
    reply.hijack()
    const { raw } = reply
    raw.writeHead(200, {
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-store',
      'x-accel-buffering': 'no',
      'tenure-cluster-id': service.state.clusterId,
      connection: 'keep-alive',
    })
    const frames = first.map(({ cursor, data }) => frame(JSON.stringify(data), cursor))
    raw.write(`retry: 2000\n\n${frames.join('')}${early.join('')}`)
    await new Promise<void>((resolve) => {
      const beat = () => {
        write(': still here\n\n')
        timer = clock.setTimer(heartbeatMs, beat, { background: true })
      }
      let timer = clock.setTimer(heartbeatMs, beat, { background: true })
      const end = () => {
        timer.cancel()
        forget()
        resolve()
      }
      const forget = service.streams.add(() => {
        // The client comes back by itself, and goes on where it was.
        raw.end(': going away\n\n')
        end()
      })
      raw.once('close', end)
      raw.on('error', end)
      write = (text) => {
        if (raw.destroyed) return
        if (raw.writableLength <= slowReaderBytes) return void raw.write(text)
        service.metrics.slowReader()
        raw.end(frame(JSON.stringify({ type: 'TOO_SLOW', ts_ms: clock.wallMs() }), undefined))
        clock.setTimer(5_000, () => void raw.destroy(), { background: true })
        write = () => {}
      }
    })
  } finally {
    leave()
  }
}

/** One event of a stream. Without a name, so that the browser's `onmessage` gets it. */
function frame(text: string, cursor: string | undefined): string {
  return `${cursor === undefined ? '' : `id: ${cursor}\n`}data: ${text}\n\n`
}

async function poll(service: Service, request: FastifyRequest, start: Start, waitMs: number) {
  const { hub, clock } = service
  const late: { data: schema.WatchedEvent }[] = []
  let wake = () => {}
  const leave = hub.subscribe(start.groups, {
    wantsRenewals: start.renewals,
    tell(change: Change | Entry) {
      late.push({ data: hub.describe(change) })
      wake()
    },
  })
  try {
    const first = await beginning(service, start)
    if (first.length === 0 && late.length === 0) {
      await new Promise<void>((resolve) => {
        const timer = clock.setTimer(Math.min(waitMs, 60_000), done)
        const forget = service.streams.add(done)
        request.raw.socket.once('close', done)
        function done(): void {
          timer.cancel()
          forget()
          request.raw.socket.off('close', done)
          resolve()
        }
        wake = done
      })
    }
    return {
      events: [...first, ...late].map(({ data }) => data),
      cursor: hub.feed.cursor,
      cluster_id: service.state.clusterId,
    }
  } finally {
    leave()
  }
}
