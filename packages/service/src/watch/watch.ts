/** Changes as they happen: Server-Sent Events for clients that ask for them, long polls for all others. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { mayRead, validForMs } from '../auth/access.ts'
import { ServiceError } from '../errors.ts'
import { whileHere } from '../http/connections.ts'
import { watchWeight } from '../http/limits.ts'
import type { WatchOptions } from '../http/schemas/watch.ts'
import type { Service } from '../http/service.ts'
import { isAfter, type Position } from '../storage/position.ts'
import { EventStream } from './event-stream.ts'
import { jsonOf } from './frames.ts'
import { takeSnapshot, type Snapshot, type Start } from './snapshot.ts'

const longestWaitMs = 60_000
/** How long a stream may wait for its reader. */
const patienceMs = 15_000
/** What one poll is answered at most, apart from the snapshot: the rest comes with the next one. */
const mostEvents = 256
const mostLength = 256 * 1024

interface Wanted {
  readonly groups: readonly string[]
  readonly renewals: boolean
  readonly from: Start
}

export async function watch(
  service: Service,
  request: FastifyRequest,
  reply: FastifyReply,
  groups: readonly string[],
  query: WatchOptions,
) {
  for (const group of groups) mayRead(request.identity, group)
  const wanted = { groups, renewals: query.renewals === 'true', from: await startOf(service, request, query) }
  const leave = service.hub.enter(watchWeight(groups.length))
  if (!leave)
    throw new ServiceError('RATE_LIMITED', 'There are too many watchers already.', {
      details: { retry_after_ms: 5_000 },
    })
  try {
    if (request.headers.accept?.includes('text/event-stream')) return await stream(service, request, reply, wanted)
    const answer = await poll(service, request, wanted, Number(query.wait_ms ?? 25_000))
    return await reply.type('application/json; charset=utf-8').send(answer)
  } finally {
    leave()
  }
}

async function startOf({ hub, state }: Service, request: FastifyRequest, query: WatchOptions): Promise<Start> {
  const { 'last-event-id': header } = request.headers
  // Newer than the query, which the browser repeats whenever it connects again.
  const cursor = header || query.cursor
  if (cursor === undefined) return 'first'
  const found = typeof cursor === 'string' ? hub.feed.find(cursor) : undefined
  const isAhead = found !== undefined && found !== 'gap' && isAfter(found, hub.feed.position)
  // Another replica may have given it out, and this one has yet to hear what that one knew.
  if (found === undefined || (isAhead && !(await state.reaches(found)))) {
    throw new ServiceError('INVALID_REQUEST', 'This cursor was never given out.')
  }
  return found
}

/** How a reader begins: with what the feed has for it, or with a snapshot. */
async function beginningOf(
  service: Service,
  request: FastifyRequest,
  { groups, from }: Pick<Wanted, 'groups' | 'from'>,
): Promise<Snapshot> {
  if (typeof from === 'object' && service.hub.feed.after(from)) return { events: [], position: from }
  // Rights may be read again while the snapshot waits for the disk. Then the stream would begin with outdated rights.
  return whileHere(service, request, async (signal) => {
    const snapshot = await takeSnapshot(service, groups, from)
    if (signal.aborted) throw new ServiceError('BACKEND_UNAVAILABLE', 'Rights were read again, or the service stops.')
    return snapshot
  })
}

async function stream(service: Service, request: FastifyRequest, reply: FastifyReply, wanted: Wanted): Promise<void> {
  const { groups } = wanted
  const start = await beginningOf(service, request, wanted)
  reply.hijack()
  const events = new EventStream({
    ...wanted,
    raw: reply.raw,
    socket: request.raw.socket,
    headers: { 'tenure-cluster-id': service.state.clusterId },
    hub: service.hub,
    clock: service.clock,
    identity: request.identity,
    patienceMs: Math.min(patienceMs, service.limits.options.answerTimeoutMs / 2),
    missedSince: (from) => beginningOf(service, request, { groups, from }),
    onSlow: () => service.metrics.slowReader(),
  })
  const forget = service.streams.add(events)
  try {
    await events.run(start)
  } finally {
    forget()
  }
}

/** The answer as JSON: checking every event against its schema again would take longer than all the rest. */
async function poll(service: Service, request: FastifyRequest, wanted: Wanted, waitMs: number): Promise<string> {
  const { hub, state, clock } = service
  const events: string[] = []
  let length = 0
  /** False if that is enough for one answer. */
  const add = (json: string) => {
    events.push(json)
    length += json.length
    return events.length < mostEvents && length < mostLength
  }
  const answer = (position: Position) => {
    const rest = JSON.stringify({ cursor: hub.feed.cursorAt(position), cluster_id: state.clusterId })
    return `{"events":[${events.join()}],${rest.slice(1)}`
  }
  const { groups } = wanted
  const start = await beginningOf(service, request, wanted)
  for (const event of start.events) add(JSON.stringify(event()))
  if (events.length > 0) return answer(start.position)
  const from = start.position
  const watched = new Set(groups)
  for (const entry of hub.feed.after(from) ?? []) {
    if (watched.has(entry.change.groupId) && !add(jsonOf(hub.frameOf(entry)))) return answer(entry.position)
  }
  if (events.length > 0) return answer(hub.feed.position)
  const longestMs = Math.min(waitMs, longestWaitMs, validForMs(request.identity, clock.wallMs()))
  let wake = () => {}
  let position: Position | undefined
  const leave = hub.subscribe(groups, {
    wantsRenewals: wanted.renewals,
    notify(frame) {
      wake()
      if (add(jsonOf(frame()))) return
      position = hub.feed.position
      leave()
    },
    // The next poll gets it.
    miss(since) {
      position = since
      leave()
      wake()
    },
  })
  const wait = (signal: AbortSignal) =>
    new Promise<void>((resolve) => {
      wake = () => {
        timer.cancel()
        resolve()
      }
      const timer = clock.setTimer(longestMs, wake)
      signal.addEventListener('abort', wake)
      if (signal.aborted) wake()
    })
  try {
    await whileHere(service, request, wait)
    // The position of now, with all events up to now: there is nothing between this answer and the next.
    return answer(position ?? hub.feed.position)
  } finally {
    leave()
  }
}
