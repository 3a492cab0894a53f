import { request } from 'node:http'
import { connect } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import { systemClock } from '../../src/common/clock.ts'
import { figureOf, isOneProcess, serve, type Entry, type Served, type ServeOptions } from '../service-under-test.ts'
import { EventSource, type Told } from './event-source.ts'

/** The timeout is generous, because other programs may also use this machine. */
const patienceMs = 10_000
let service: Served
beforeAll(async () => {
  service = await start({})
})
afterAll(() => service.close())

const start = (options: ServeOptions, entry?: Entry) =>
  serve({ policy: { minTtlMs: 20, maxTtlMs: 60_000 }, ...options }, entry)

let groups = 0
const newGroup = () => `watched-${++groups}`

async function ask(method: string, path: string, body?: object): Promise<Record<string, unknown>> {
  const response = await fetch(service.url + path, {
    method,
    // Each request uses a dedicated connection, so that any process may answer it.
    headers: { connection: 'close', ...(body && { 'content-type': 'application/json' }) },
    ...(body && { body: JSON.stringify(body) }),
  })
  return (await response.json()) as Record<string, unknown>
}
const campaign = async (group: string, more: object = {}): Promise<number> => {
  const { leader } = await ask('POST', `/v1/groups/${group}/campaign`, { node_id: 'a', lease_ttl_ms: 60_000, ...more })
  return (leader as { term: number } | null)?.term ?? 0
}
const resign = (group: string, term: number) => ask('POST', `/v1/groups/${group}/resign`, { node_id: 'a', term })
const poll = (group: string, query: Record<string, string>) =>
  ask('GET', `/v1/groups/${group}/watch?${new URLSearchParams(query).toString()}`)

function watch(path: string, options: { lastEventId?: string } = {}): EventSource {
  const source = new EventSource(service.url + path, options)
  onTestFinished(() => source.close())
  return source
}
const types = (told: readonly Told[]) => told.map(({ data }) => data.type)

const watchers = () => figureOf(service, 'tenure_watchers')

test('a stream sends the current state and then every change', async () => {
  const group = newGroup()
  const source = watch(`/v1/groups/${group}/watch`)
  await source.until((told) => told.length === 1)
  const term = await campaign(group)
  await resign(group, term)
  await source.until((told) => told.length === 3)
  expect(types(source.told)).toEqual(['STATE', 'LEADER_CHANGED', 'LEADER_LOST'])
  expect(source.told[2]?.data).toMatchObject({ term, leader_node_id: 'a', reason: 'resigned', leader: null })
  expect(source.parser.retryMs).toBe(2000)
})

test('a stream of many groups begins with one snapshot, of which only the last event has an id', async () => {
  const three = [newGroup(), newGroup(), newGroup()]
  await campaign(three[1] ?? '')
  const source = watch(`/v1/watch?groups=${three.join(',')}`)
  await source.until((told) => told.length === 3)
  expect(source.told.map(({ data }) => [data['type'], data['group_id']])).toEqual(three.map((id) => ['STATE', id]))
  expect(source.told.map(({ id }) => id !== '')).toEqual([false, false, true])
  await campaign(three[2] ?? '')
  await source.until((told) => told.length === 4)
  expect(source.told[3]?.data).toMatchObject({ type: 'LEADER_CHANGED', group_id: three[2] })
})

test('the Last-Event-ID of a browser takes precedence over the cursor in its URL', async () => {
  const group = newGroup()
  const { cursor } = await poll(group, {})
  const source = watch(`/v1/groups/${group}/watch?cursor=${String(cursor)}`)
  await campaign(group)
  await source.until((told) => told.length === 1)
  source.break()
  await source.until(() => source.connections === 2)
  await resign(group, 1)
  await source.until((told) => told.length === 2)
  expect(types(source.told)).toEqual(['LEADER_CHANGED', 'LEADER_LOST'])
})

/**
 * Leases end by time and by resignation, in the middle of reads of their state, and the connections of watchers break
 * repeatedly. Each watcher must see each term begin and end once, in order.
 */
test(
  'no watcher receives a change twice, too late, or not at all, however often it is disconnected',
  { timeout: 60_000 },
  async () => {
    const five = Array.from({ length: 5 }, newGroup)
    const sources = Array.from({ length: 12 }, () => watch(`/v1/watch?groups=${five.join(',')}`))
    const polled: Record<string, unknown>[] = []
    let over = false
    const polling = (async () => {
      let { events, cursor } = await ask('GET', `/v1/watch?groups=${five.join(',')}`)
      for (;;) {
        polled.push(...(events as Record<string, unknown>[]))
        if (over) return
        ;({ events, cursor } = await ask(
          'GET',
          `/v1/watch?groups=${five.join(',')}&wait_ms=50&cursor=${String(cursor)}`,
        ))
      }
    })()
    const connections = () => sources.reduce((sum, source) => sum + source.connections, 0)
    // A run in which nobody was disconnected proves nothing.
    const goesOn = () => connections() < 150
    const living = five.map(async (group, index) => {
      while (goesOn()) {
        const term = await campaign(group, { lease_ttl_ms: 20 + index, wait_ms: 1_000 })
        if (index % 2 === 0) await resign(group, term)
      }
    })
    const breaking = (async () => {
      for (let turn = 0; goesOn(); turn++) {
        await delay(7)
        sources[turn % sources.length]?.break()
      }
    })()
    await Promise.all([...living, breaking])
    const last = new Map<string, number>()
    for (const group of five) {
      const { highest_term } = await ask('GET', `/v1/groups/${group}/leader`)
      last.set(group, Number(highest_term) * 2 + 1)
    }
    const complete = (progress: Map<string, number[]>) =>
      five.every((group) => progress.get(group)?.at(-1) === last.get(group))
    for (const source of sources) await source.until((told) => complete(progressOf(told.map(({ data }) => data))))
    await vi.waitFor(() => expect(complete(progressOf(polled))).toBe(true), patienceMs)
    over = true
    await polling
    for (const events of [polled, ...sources.map(({ told }) => told.map(({ data }) => data))]) {
      for (const [group, progress] of progressOf(events)) {
        const [first = 0] = progress
        // From the first event on, no step is missing or repeated.
        expect(progress, group).toEqual(progress.map((_, index) => first + index))
      }
    }
    for (const { told } of sources) {
      const ids = told.map(({ id }) => id).filter((id, index, all) => id !== '' && id !== all[index - 1])
      // The ids are sealed and show no order, but none of them repeats.
      expect(new Set(ids).size).toBe(ids.length)
    }
  },
)

/** The terms of each group begin and end in one order. */
function progressOf(events: readonly Record<string, unknown>[]): Map<string, number[]> {
  const progress = new Map<string, number[]>()
  for (const event of events) {
    const steps = progress.get(String(event['group_id'])) ?? []
    progress.set(String(event['group_id']), steps)
    const leader = event['leader'] as { term: number } | null
    const previous = event['previous_leader'] as { term: number } | undefined
    // A STATE event may repeat what was received before, when a watcher reconnects without an id.
    const step = leader ? leader.term * 2 : previous ? previous.term * 2 + 1 : 1
    if (event['type'] !== 'STATE' || steps.at(-1) !== step) steps.push(step)
  }
  return progress
}

test('renewals are sent only to watchers that ask for them, and have no id', async () => {
  const group = newGroup()
  const term = await campaign(group)
  const [all, some] = [watch(`/v1/groups/${group}/watch?renewals=true`), watch(`/v1/groups/${group}/watch`)]
  await Promise.all([all, some].map((source) => source.until((told) => told.length === 1)))
  // A replica that is not active must first request renewals from the active one.
  await vi.waitFor(async () => {
    await ask('POST', `/v1/groups/${group}/renew`, { node_id: 'a', term, extend_by_ms: 60_000 })
    expect(types(all.told)).toContain('RENEWED')
  }, patienceMs)
  await resign(group, term)
  await Promise.all([all, some].map((source) => source.until((told) => told.at(-1)?.data.type === 'LEADER_LOST')))
  expect([...new Set(types(all.told))]).toEqual(['STATE', 'RENEWED', 'LEADER_LOST'])
  expect(types(some.told)).toEqual(['STATE', 'LEADER_LOST'])
  // The event has the id of the event before it.
  expect(all.told[1]?.id).toBe(all.told[0]?.id)
})

test('a long poll waits for a renewal if asked to, and its cursor skips no change', async () => {
  const group = newGroup()
  const term = await campaign(group)
  const { cursor } = await poll(group, {})
  const waiting = poll(group, { cursor: String(cursor), renewals: 'true', wait_ms: '20000' })
  let isAnswered = false
  void waiting.then(() => (isAnswered = true))
  // A replica that is not active must first request renewals from the active one.
  await vi.waitFor(async () => {
    await ask('POST', `/v1/groups/${group}/renew`, { node_id: 'a', term, extend_by_ms: 60_000 })
    expect(isAnswered).toBe(true)
  }, patienceMs)
  const renewed = await waiting
  expect(renewed['events']).toHaveProperty('0', expect.objectContaining({ type: 'RENEWED', term }))
  await resign(group, term)
  const { events } = await poll(group, { cursor: String(renewed['cursor']), wait_ms: '0' })
  expect(events).toMatchObject([{ type: 'LEADER_LOST', term }])
})

test('polls without news get different cursors, so that nobody can count the changes of other groups', async () => {
  const quiet = newGroup()
  const begin = await poll(quiet, {})
  const polls = [begin]
  for (let count = 0; count < 5; count += 1) {
    polls.push(await poll(quiet, { cursor: String(begin['cursor']), wait_ms: '0' }))
  }
  expect(polls.slice(1).map(({ events }) => events)).toEqual([[], [], [], [], []])
  expect(new Set(polls.map(({ cursor }) => cursor)).size).toBe(6)
})

test('a poll without news returns another cursor after another group has changed', async () => {
  const [quiet, busy] = [newGroup(), newGroup()]
  const { cursor } = await poll(quiet, {})
  await campaign(busy)
  const answer = await poll(quiet, { cursor: String(cursor), wait_ms: '0' })
  expect(answer['events']).toEqual([])
  expect(answer['cursor']).not.toBe(cursor)
})

test('a poll with many missed changes returns a part of them, and the next poll continues there', async () => {
  const group = newGroup()
  const terms = 160
  let { cursor } = await poll(group, {})
  // Half of the terms have small metadata, half of them large.
  for (let turn = 1; turn <= terms; turn++) {
    await resign(group, await campaign(group, { metadata: turn <= terms / 2 ? {} : { text: 'x'.repeat(4_000) } }))
  }
  const told: string[] = []
  const parts: { events: number; bytes: number }[] = []
  while (told.length < 2 * terms) {
    const answer = await poll(group, { cursor: String(cursor), wait_ms: '0' })
    const events = answer['events'] as Record<string, unknown>[]
    expect(events).not.toEqual([])
    told.push(...events.map(({ type, term }) => `${String(type)} ${String(term)}`))
    parts.push({ events: events.length, bytes: JSON.stringify(events).length })
    cursor = answer['cursor']
  }
  expect(told).toEqual(
    Array.from({ length: terms }, (_, at) => [`LEADER_CHANGED ${at + 1}`, `LEADER_LOST ${at + 1}`]).flat(),
  )
  expect(Math.max(...parts.map(({ events }) => events))).toBeLessThanOrEqual(256)
  expect(Math.max(...parts.map(({ bytes }) => bytes))).toBeLessThan(270_000)
  expect(await poll(group, { cursor: String(cursor), wait_ms: '0' })).toMatchObject({ events: [] })
})

// A replica that is not active gets the groups in pieces, and answers the poll with the first piece.
test('a poll of groups with long strings is paged and shows each group once', { timeout: 60_000 }, async () => {
  const many = Array.from({ length: 150 }, newGroup)
  const metadata = { text: 'x'.repeat(4_000) }
  for (const group of many) await campaign(group, { metadata })
  const shown: string[] = []
  const pages: number[] = []
  let cursor: string | undefined
  let isChanged = false
  while (shown.length < many.length) {
    const query = new URLSearchParams({ groups: many.join(), wait_ms: '0', ...(cursor && { cursor }) })
    const response = await fetch(`${service.url}/v1/watch?${query.toString()}`)
    const text = await response.text()
    pages.push(text.length)
    const answer = JSON.parse(text) as { events: { type: string; group_id: string }[]; cursor: string }
    shown.push(...answer.events.filter(({ type }) => type === 'STATE').map(({ group_id }) => group_id))
    cursor = answer.cursor
    // A change of a group that was already shown comes with the next page.
    if (isChanged) continue
    isChanged = true
    await resign(shown[0] ?? '', 1)
    const next = new URLSearchParams({ groups: many.join(), wait_ms: '0', cursor })
    const { events } = await ask('GET', `/v1/watch?${next.toString()}`)
    expect((events as object[])[0]).toMatchObject({ type: 'LEADER_LOST', group_id: shown[0] })
  }
  expect(pages.length).toBeGreaterThan(2)
  expect(Math.max(...pages)).toBeLessThan(600_000)
  expect(shown.toSorted()).toEqual(many.toSorted())
})

test.skipIf(!isOneProcess())('a thousand renewals of a group within a second are one event', async () => {
  const group = newGroup()
  const term = await campaign(group)
  const { cursor } = await poll(group, {})
  const before = await watchers()
  const polled = poll(group, { cursor: String(cursor), renewals: 'true' })
  await vi.waitFor(async () => expect(await watchers()).toBe(before + 1), patienceMs)
  const renewals = Array.from({ length: 1_000 }, () => ({ group_id: group, term, extend_by_ms: 60_000 }))
  await ask('POST', '/v1/renew', { node_id: 'a', renewals })
  const { events, cursor: next } = (await polled) as { events: { type: string }[]; cursor: string }
  expect(new Set(events.map(({ type }) => type))).toEqual(new Set(['RENEWED']))
  expect(events).toHaveLength(1)
  await resign(group, term)
  expect((await poll(group, { cursor: next, wait_ms: '0' }))['events']).toMatchObject([{ type: 'LEADER_LOST', term }])
})

interface Member {
  readonly node_id: string
  readonly live: boolean
  readonly last_heartbeat_ms: number
}
const memberOf = async (group: string, node: string) => {
  const { members } = (await ask('GET', `/v1/groups/${group}/members`)) as { members: Member[] }
  return members.find(({ node_id }) => node_id === node)
}

test('a standby stays live while a stream that names it is open, and is no longer live once the stream is closed', async () => {
  const group = newGroup()
  await campaign(group)
  const standby = watch(`/v1/groups/${group}/watch?node_id=b`)
  await vi.waitFor(async () => expect(await memberOf(group, 'b')).toMatchObject({ live: true }), patienceMs)
  const before = (await memberOf(group, 'b'))?.last_heartbeat_ms ?? Infinity
  // Each request uses a dedicated connection, because all replicas must give the same answer.
  await vi.waitFor(async () => {
    const now = await memberOf(group, 'b')
    expect(now?.live).toBe(true)
    expect(now?.last_heartbeat_ms).toBeGreaterThan(before)
  }, 2 * patienceMs)
  expect(await ask('GET', `/v1/groups/${group}`)).toMatchObject({ group: { candidates: 1, standbys: 1 } })
  standby.close()
  await vi.waitFor(async () => expect(await memberOf(group, 'b')).toMatchObject({ live: false }), 3 * patienceMs)
  expect(await ask('GET', `/v1/groups/${group}`)).toMatchObject({ group: { candidates: 1, standbys: 0 } })
}, 90_000)

test('a standby is live in all groups of a long poll that names it, and a poll without a node adds no member', async () => {
  const before = await watchers()
  const [one, two] = [newGroup(), newGroup()]
  await campaign(one)
  await campaign(two)
  const { cursor } = await ask('GET', `/v1/watch?groups=${one},${two}`)
  const end = new AbortController()
  onTestFinished(() => end.abort())
  for (const query of ['&node_id=b', '']) {
    const url = `${service.url}/v1/watch?groups=${one},${two}&wait_ms=60000&cursor=${String(cursor)}${query}`
    void fetch(url, { signal: end.signal }).catch(() => {})
  }
  for (const group of [one, two]) {
    await vi.waitFor(async () => expect(await memberOf(group, 'b')).toMatchObject({ live: true }), patienceMs)
    const { members } = (await ask('GET', `/v1/groups/${group}/members`)) as { members: Member[] }
    expect(members.map(({ node_id, live }) => [node_id, live]).toSorted()).toEqual([
      ['a', true],
      ['b', true],
    ])
  }
  expect(await ask('GET', `/v1/groups/${one}/watch?node_id=%20b`)).toMatchObject({ error: 'INVALID_REQUEST' })
  end.abort()
  await vi.waitFor(async () => expect(await watchers()).toBe(before), patienceMs)
})

test('a watcher is removed at once when it disconnects', async () => {
  const before = await watchers()
  const group = newGroup()
  const sources = Array.from({ length: 20 }, () => watch(`/v1/groups/${group}/watch`))
  await Promise.all(sources.map((source) => source.until((told) => told.length === 1)))
  const { cursor } = await poll(group, {})
  const waiting = request(`${service.url}/v1/groups/${group}/watch?cursor=${String(cursor)}&wait_ms=60000`).end()
  waiting.on('error', () => {})
  await vi.waitFor(async () => expect(await watchers()).toBe(before + 21), patienceMs)
  for (const source of sources) source.close()
  waiting.destroy()
  await vi.waitFor(async () => expect(await watchers()).toBe(before), patienceMs)
})

test('a watcher that disconnects before the first event is removed, and so are pipelined streams', async () => {
  const before = await watchers()
  const { port } = new URL(service.url)
  const head = `GET /v1/groups/${newGroup()}/watch HTTP/1.1\r\nhost: 127.0.0.1\r\naccept: text/event-stream\r\n\r\n`
  for (let turn = 0; turn < 50; turn++) {
    const socket = connect(Number(port), '127.0.0.1')
    socket.on('error', () => {})
    socket.write(turn % 2 === 0 ? head : head.repeat(3))
    socket.once('connect', () => setTimeout(() => socket.destroy(), turn % 5))
  }
  await delay(100)
  await vi.waitFor(async () => expect(await watchers()).toBe(before), patienceMs)
})

test('a watch beyond maxWatchers is refused with a time to retry', async () => {
  const small = await start({ maxWatchers: 2 }, 'one')
  onTestFinished(() => small.close())
  const sources = [1, 2].map(() => new EventSource(`${small.url}/v1/groups/g/watch`))
  onTestFinished(() => sources.forEach((source) => source.close()))
  await Promise.all(sources.map((source) => source.until((told) => told.length === 1)))
  const third = await fetch(`${small.url}/v1/groups/g/watch`)
  expect(third.status).toBe(429)
  expect(await third.json()).toMatchObject({ error: 'RATE_LIMITED', retry_after_ms: 5_000 })
  sources[0]?.close()
  await vi.waitFor(async () => expect((await fetch(`${small.url}/v1/groups/g/watch`)).status).toBe(200), patienceMs)
})

test('a watch of many groups counts as several watches', async () => {
  const small = await start({ maxWatchers: 3 }, 'one')
  onTestFinished(() => small.close())
  const many = Array.from({ length: 101 }, (_, at) => `g${at}`).join()
  const source = new EventSource(`${small.url}/v1/watch?groups=${many}`)
  onTestFinished(() => source.close())
  await source.until((told) => told.length === 101)
  expect((await fetch(`${small.url}/v1/groups/g/watch`)).status).toBe(429)
  expect(await (await fetch(`${small.url}/metrics`)).text()).toMatch(/^tenure_watchers 1$/m)
  source.close()
  await vi.waitFor(async () => expect((await fetch(`${small.url}/v1/groups/g/watch`)).status).toBe(200), patienceMs)
})

// On a fast clock, the active process of several would keep losing its lease.
test.skipIf(!isOneProcess())('an idle stream sends comments and a newer cursor', async () => {
  const speed = 50
  const quick = await start({
    clock: {
      ...systemClock,
      monotonicMs: () => systemClock.monotonicMs() * speed,
      setTimer: (delayMs, callback, options) => systemClock.setTimer(delayMs / speed, callback, options),
    },
  })
  onTestFinished(() => quick.close())
  const source = new EventSource(`${quick.url}/v1/groups/quiet/watch`)
  onTestFinished(() => source.close())
  await source.until((told) => told.length === 1)
  const body = JSON.stringify({ node_id: 'a', lease_ttl_ms: 60_000 })
  const headers = { 'content-type': 'application/json' }
  await fetch(`${quick.url}/v1/groups/busy/campaign`, { method: 'POST', headers, body })
  await vi.waitFor(() => expect(source.parser.comments).toBeGreaterThan(0), patienceMs)
  expect(source.parser.lastEventId).not.toBe(source.told[0]?.id)
  expect(source.told).toHaveLength(1)
})

test('a stopping service ends its streams, long polls, and waiting campaigns', async () => {
  const stopping = await start({})
  const source = new EventSource(`${stopping.url}/v1/groups/g/watch`)
  onTestFinished(() => source.close())
  await source.until((told) => told.length === 1)
  const post = (node_id: string, more: object = {}) =>
    fetch(`${stopping.url}/v1/groups/g/campaign`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ node_id, lease_ttl_ms: 60_000, ...more }),
    })
  await post('a')
  await source.until((told) => told.length === 2)
  const polled = fetch(`${stopping.url}/v1/groups/g/watch?wait_ms=60000&cursor=${source.parser.lastEventId}`)
  const waiting = post('b', { wait_ms: 60_000 })
  await delay(100)
  const began = performance.now()
  await stopping.close()
  expect(performance.now() - began).toBeLessThan(3_000)
  expect(await (await polled).json()).toMatchObject({ events: [] })
  expect(await (await waiting).json()).toMatchObject({ is_leader: false })
})
