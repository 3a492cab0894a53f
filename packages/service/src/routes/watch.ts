/** Changes as they happen: Server-Sent Events for those who ask for them, long polls for all others. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { mayRead, validForMs } from '../access.ts'
import { beginning } from '../beginning.ts'
import { ServiceError } from '../errors.ts'
import { EventStream } from '../event-stream.ts'
import { jsonOf } from '../hub.ts'
import { watchWeight } from '../limits.ts'
import * as schema from '../schemas.ts'
import type { App, Service } from '../service.ts'
import { whileHere } from '../while-here.ts'

const longestWaitMs = 60_000
/** How long a stream may stand still. */
const patienceMs = 15_000
/** What one poll is told at most, apart from how things stand: the rest comes with the next one. */
const mostEvents = 256
const mostLength = 256 * 1024

export function watchRoutes(app: App, service: Service): void {
  const response = schema.watchResponses
  app.get(
    '/v1/groups/:group_id/watch',
    {
      // A stream without a body would be held for nothing.
      exposeHeadRoute: false,
      schema: {
        operationId: 'watch',
        tags: ['watch'],
        summary: 'Watch a group',
        description: schema.watchText,
        params: schema.GroupParams,
        querystring: schema.WatchQuery,
        headers: schema.WatchHeaders,
        response,
      },
      config: { failures: [404] },
    },
    (request, reply) =>
      service.limits.watching(request, 1, () =>
        watch(service, request, reply, [request.params.group_id], request.query),
      ),
  )
  app.get(
    '/v1/watch',
    {
      exposeHeadRoute: false,
      schema: {
        operationId: 'watchMany',
        tags: ['watch'],
        summary: 'Watch many groups',
        description: schema.watchText,
        querystring: schema.WatchManyQuery,
        headers: schema.WatchHeaders,
        response,
      },
    },
    (request, reply) => {
      const groups = [...new Set(request.query.groups.split(','))]
      if (groups.length > schema.mostWatched) {
        throw new ServiceError('INVALID_REQUEST', `groups must be at most ${schema.mostWatched}.`)
      }
      service.limits.groups(request, groups.length)
      return service.limits.watching(request, groups.length, () =>
        watch(service, request, reply, groups, request.query),
      )
    },
  )
}

interface Query {
  readonly cursor?: string
  readonly renewals?: 'true' | 'false'
  readonly wait_ms?: string
}

async function watch(service: Service, request: FastifyRequest, reply: FastifyReply, groups: string[], query: Query) {
  for (const group of groups) mayRead(request.identity, group)
  const from = startOf(service, request, query)
  const leave = service.hub.enter(watchWeight(groups.length))
  if (!leave) throw new ServiceError('RATE_LIMITED', 'Too many watch already.', { details: { retry_after_ms: 5_000 } })
  const start = { groups, renewals: query.renewals === 'true', from }
  try {
    if (request.headers.accept?.includes('text/event-stream')) return await stream(service, request, reply, start)
    const answer = await poll(service, request, start, Number(query.wait_ms ?? 25_000))
    return await reply.type('application/json; charset=utf-8').send(answer)
  } finally {
    leave()
  }
}

interface Start {
  readonly groups: readonly string[]
  readonly renewals: boolean
  /** The position behind which the reader goes on. Undefined: it comes for the first time. */
  readonly from: number | 'gap' | undefined
}

function startOf({ hub }: Service, request: FastifyRequest, query: Query): Start['from'] {
  const { 'last-event-id': header } = request.headers
  // Newer than the query, which the browser repeats whenever it connects again.
  const cursor = header || query.cursor
  if (cursor === undefined) return undefined
  const found = typeof cursor === 'string' ? hub.feed.find(cursor) : undefined
  if (found === undefined) throw new ServiceError('INVALID_REQUEST', 'This cursor was never given out.')
  return found !== 'gap' && hub.feed.after(found) ? found : 'gap'
}

async function stream(service: Service, request: FastifyRequest, reply: FastifyReply, start: Start): Promise<void> {
  const { groups, from } = start
  const begin = typeof from === 'number' ? { position: from } : await firstOf(service, request, groups, from === 'gap')
  reply.hijack()
  const events = new EventStream({
    ...start,
    raw: reply.raw,
    socket: request.raw.socket,
    headers: { 'tenure-cluster-id': service.state.clusterId },
    hub: service.hub,
    clock: service.clock,
    expiresAtMs: request.identity.expiresAtMs,
    patienceMs: Math.min(patienceMs, service.limits.options.answerTimeoutMs / 2),
    onSlow: () => service.metrics.slowReader(),
  })
  const forget = service.streams.add(events)
  try {
    await events.run(begin)
  } finally {
    forget()
  }
}

/** Rights may be read again while it waits for the disk, and then the stream would begin with those of before. */
async function firstOf(service: Service, request: FastifyRequest, groups: readonly string[], isGap: boolean) {
  return whileHere(service, request, async (signal) => {
    const begin = await beginning(service, groups, isGap)
    if (signal.aborted) throw new ServiceError('BACKEND_UNAVAILABLE', 'Rights were read again, or the service stops.')
    return begin
  })
}

/** The answer as JSON: to compare every event with its schema once more takes longer than all the rest. */
async function poll(service: Service, request: FastifyRequest, start: Start, waitMs: number): Promise<string> {
  const { hub, state, clock } = service
  const events: string[] = []
  let length = 0
  /** False if that is enough for one answer. */
  const add = (json: string) => {
    events.push(json)
    length += json.length
    return events.length < mostEvents && length < mostLength
  }
  const answer = (position: number) => {
    const rest = JSON.stringify({ cursor: hub.feed.cursorAt(position), cluster_id: state.clusterId })
    return `{"events":[${events.join()}],${rest.slice(1)}`
  }
  const { groups, from } = start
  if (typeof from !== 'number') {
    const begin = await beginning(service, groups, from === 'gap')
    for (const event of begin.events) add(JSON.stringify(event))
    return answer(begin.position)
  }
  const wanted = new Set(groups)
  for (const entry of hub.feed.after(from) ?? []) {
    if (wanted.has(entry.change.groupId) && !add(jsonOf(hub.frameOf(entry)))) return answer(entry.position)
  }
  if (events.length > 0) return answer(hub.feed.position)
  const leftMs = validForMs(request.identity, clock.wallMs())
  let wake = () => {}
  let position: number | undefined
  const leave = hub.subscribe(groups, {
    wantsRenewals: start.renewals,
    tell(_change, frame) {
      wake()
      if (add(jsonOf(frame()))) return
      position = hub.feed.position
      leave()
    },
  })
  try {
    await whileHere(
      service,
      request,
      (signal) =>
        new Promise<void>((resolve) => {
          const timer = clock.setTimer(Math.min(waitMs, longestWaitMs, leftMs), done)
          function done(): void {
            timer.cancel()
            resolve()
          }
          wake = done
          signal.addEventListener('abort', done)
          if (signal.aborted) done()
        }),
    )
    // The position of this moment, with all that was told until now: nothing lies between this answer and the next.
    return answer(position ?? hub.feed.position)
  } finally {
    leave()
  }
}
