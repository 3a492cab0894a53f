/** Changes as they happen: Server-Sent Events for clients that accept them, long polls for all others. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { checkMayAct, checkMayRead, validForMs } from '../../auth/access.ts'
import { checkNodeId } from '../../common/checks.ts'
import { TimeSlice } from '../../common/clock.ts'
import { ServiceError } from '../../common/errors.ts'
import { whileConnected } from '../connections.ts'
import { watchWeight } from '../limits.ts'
import type { WatchQuery } from '../../schemas/watch.ts'
import type { Service } from '../service.ts'
import { isAfter, type Position } from '../../storage/position.ts'
import { EventStream } from './event-stream.ts'
import { jsonOf } from '../../watch/frames.ts'
import { maxBytes, takeSnapshot, type Snapshot, type SnapshotPart, type SnapshotStart } from '../../watch/snapshot.ts'
import type { SnapshotPosition } from '../../watch/snapshot-cursor.ts'

const longestWaitMs = 60_000
/** How long a stream may wait for its reader. */
const readTimeoutMs = 15_000
/** The maximum number of changes that one poll returns. The rest comes with the next one. */
const maxEvents = 256

interface Wanted {
  readonly groups: readonly string[]
  readonly renewals: boolean
  readonly from: SnapshotStart | SnapshotPosition
}

export async function handleWatch(
  service: Service,
  request: FastifyRequest,
  reply: FastifyReply,
  groups: readonly string[],
  query: WatchQuery,
) {
  for (const group of groups) checkMayRead(request.identity, group)
  const { node_id: nodeId } = query
  if (nodeId !== undefined) {
    checkNodeId(nodeId)
    for (const group of groups) checkMayAct(request.identity, group, nodeId)
  }
  const wanted = { groups, renewals: query.renewals === 'true', from: await startOf(service, request, query) }
  const leave = service.hub.enter(watchWeight(groups.length))
  if (!leave)
    throw new ServiceError('RATE_LIMITED', 'There are too many watchers. Retry later.', {
      details: { retry_after_ms: 5_000 },
    })
  const absent = nodeId === undefined ? undefined : service.presence.enter(groups, nodeId)
  try {
    if (request.headers.accept?.includes('text/event-stream')) return await stream(service, request, reply, wanted)
    // Sorted by id, because a snapshot may continue with the next poll.
    const sorted = { ...wanted, groups: groups.toSorted() }
    const answer = await poll(service, request, sorted, Number(query.wait_ms ?? 25_000))
    return await reply.type('application/json; charset=utf-8').send(answer)
  } finally {
    absent?.()
    leave()
  }
}

async function startOf(
  { hub, state, limits }: Service,
  request: FastifyRequest,
  query: WatchQuery,
): Promise<SnapshotStart | SnapshotPosition> {
  const { 'last-event-id': header } = request.headers
  // The header is newer than the query, which the browser repeats whenever it reconnects.
  const cursor = header || query.cursor
  if (cursor === undefined) return 'first'
  const inSnapshot = typeof cursor === 'string' ? hub.snapshotCursors.find(cursor) : undefined
  const found = typeof cursor === 'string' ? (inSnapshot?.position ?? hub.feed.find(cursor)) : undefined
  const isAhead = found !== undefined && isAfter(found, hub.feed.position)
  // The cursor may come from another replica, and this replica may not have received all changes that the other one
  // had.
  if (found === undefined || (isAhead && !(await state.forCaller(limits.callerOf(request)).reaches(found)))) {
    throw new ServiceError('INVALID_REQUEST', 'The cursor is not from this service. Watch again without a cursor.')
  }
  return inSnapshot ?? found
}

/**
 * Yields the first events for a reader, in parts: changes from the feed, or a snapshot. Rights may be reloaded while a
 * part waits for the disk, and the reader must not continue with outdated rights.
 */
async function* beginningOf(
  service: Service,
  request: FastifyRequest,
  { groups, from }: Pick<Wanted, 'groups' | 'from'>,
): AsyncGenerator<Snapshot> {
  const isInside = typeof from === 'object' && 'after' in from
  if (typeof from === 'object' && !isInside && service.hub.feed.after(from)) {
    return yield { events: [], position: from, left: [], hasGap: false }
  }
  const timeSlice = new TimeSlice()
  const { hub, clock, limits } = service
  const state = service.state.forCaller(limits.callerOf(request))
  let part: SnapshotPart = isInside
    ? partAfter(groups, from)
    : { shown: undefined, left: groups, from, hasGap: from === 'first' }
  const ordered = [...(part.shown?.groups ?? []), ...part.left]
  do {
    const asked = part
    const taken = await whileConnected(service, request, async (signal) => {
      const snapshot = await takeSnapshot({ hub, clock, state }, asked)
      if (signal.aborted)
        throw new ServiceError(
          'BACKEND_UNAVAILABLE',
          'Access rights were reloaded, or the service is stopping. Retry the request.',
        )
      return snapshot
    })
    // Too much has happened since the previous part. Start again.
    if (!taken) part = { shown: undefined, left: ordered, from: 'gap', hasGap: false }
    else {
      yield taken
      const { position, left, hasGap } = taken
      part = { ...part, shown: { groups: ordered.slice(0, ordered.length - left.length), position }, left, hasGap }
    }
    if (timeSlice.isOver) await timeSlice.pause()
  } while (part.left.length > 0)
}

/** Returns the part of a snapshot that comes after this group. */
function partAfter(groups: readonly string[], { position, after }: SnapshotPosition): SnapshotPart {
  const [shown, left] = [groups.filter((id) => id <= after), groups.filter((id) => id > after)]
  return { shown: { groups: shown, position }, left, from: 'first', hasGap: true }
}

async function stream(service: Service, request: FastifyRequest, reply: FastifyReply, wanted: Wanted): Promise<void> {
  const { groups } = wanted
  const subject = service.limits.subjectOf(request)
  const start = await begun(beginningOf(service, request, wanted))
  reply.hijack()
  const events = new EventStream({
    ...wanted,
    raw: reply.raw,
    socket: request.raw.socket,
    headers: { 'tenure-cluster-id': service.state.clusterId },
    hub: service.hub,
    clock: service.clock,
    identity: request.identity,
    readTimeoutMs: Math.min(readTimeoutMs, service.limits.options.answerTimeoutMs / 2),
    subject,
    charge: (count) => service.limits.deliverLate(subject, count),
    missedSince: (from) => beginningOf(service, request, { groups, from }),
    onSlow: () => service.metrics.slowReader(),
  })
  const forget = service.openResponses.add(events)
  try {
    await events.run(start)
  } finally {
    forget()
  }
}

/** Takes the first part now, so that an error can still be sent as a response. */
async function begun(parts: AsyncGenerator<Snapshot>): Promise<AsyncIterable<Snapshot>> {
  const first = await parts.next()
  return (async function* () {
    if (!first.done) yield first.value
    yield* parts
  })()
}

/**
 * Returns the response as JSON. Checking every event against its schema again would take longer than all other work.
 */
async function poll(service: Service, request: FastifyRequest, wanted: Wanted, waitMs: number): Promise<string> {
  const { hub, state, clock } = service
  const events: string[] = []
  let length = 0
  /** Returns false once there is enough for one response. */
  const add = (json: string) => {
    events.push(json)
    length += Buffer.byteLength(json)
    return events.length < maxEvents && length < maxBytes
  }
  const answer = (cursor: string) => {
    const rest = JSON.stringify({ cursor, cluster_id: state.clusterId })
    // The size is known only now, so the poll is not rejected for it.
    service.limits.chargePoll(request, wanted.groups.length, length)
    return `{"events":[${events.join()}],${rest.slice(1)}`
  }
  const { groups } = wanted
  const subject = service.limits.subjectOf(request)
  let from: Position | undefined
  for await (const part of beginningOf(service, request, wanted)) {
    for (const json of part.events) add(json)
    from = part.position
    if (length < maxBytes || part.left.length === 0) continue
    // The rest comes with the next poll.
    const after = groups[groups.length - part.left.length - 1] ?? ''
    return answer(hub.snapshotCursors.cursorAt({ position: from, after }))
  }
  if (!from) throw new TypeError('the snapshot has no parts')
  if (events.length > 0) return answer(hub.feed.cursorAt(from))
  const watched = new Set(groups)
  const missed = hub.feed.after(from)
  // The feed was just interrupted. The next poll gets the missed changes.
  if (!missed) return answer(hub.feed.cursorAt(from))
  for (const entry of missed) {
    if (watched.has(entry.change.groupId) && !add(jsonOf(hub.frameOf(entry)))) {
      return answer(hub.feed.cursorAt(entry.position))
    }
  }
  if (events.length > 0) return answer(hub.feed.cursorAt(hub.feed.position))
  const longestMs = Math.min(waitMs, longestWaitMs, validForMs(request.identity, clock.wallMs()))
  let wake = () => {}
  let position: Position | undefined
  const subscription = hub.subscribe(groups, {
    wantsRenewals: wanted.renewals,
    subject,
    notify(frame) {
      wake()
      if (add(jsonOf(frame()))) return
      position = subscription.position
      subscription.leave()
    },
    // The next poll gets the missed changes.
    miss(since) {
      position = since
      subscription.leave()
      wake()
    },
  })
  const wait = (signal: AbortSignal) =>
    new Promise<void>((resolve) => {
      wake = () => {
        timer.cancel()
        // One change may wake thousands of polls, and a response takes longer than a notification.
        if (!service.fairQueue.runLater(subject, resolve)) resolve()
        wake = () => {}
      }
      const timer = clock.setTimer(longestMs, wake)
      signal.addEventListener('abort', wake)
      if (signal.aborted) wake()
    })
  try {
    await whileConnected(service, request, wait)
    // Use the current position, because the response has all events up to now and the next poll must miss none.
    return answer(hub.feed.cursorAt(position ?? subscription.position))
  } finally {
    subscription.leave()
  }
}
