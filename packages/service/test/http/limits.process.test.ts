import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { Members } from '../../src/groups/members.ts'
import type { LimitOptions } from '../../src/index.ts'
import { ask, startTestService } from '../auth/service.ts'
import { audience, claimsOf, ecKeys, issuer, jwkOf, tokenOf } from '../auth/tokens.ts'
import { answers, campaign, closed, expectRefused, json, open, request, send } from '../attacks.ts'
import { figureOf, serve } from '../service-under-test.ts'

const keys = ecKeys()
const header = { alg: 'ES256', kid: 'one' }
const tokenFor = (sub: string) => tokenOf({ header, claims: claimsOf(sub), key: keys.privateKey })
const [first, second] = [tokenFor('node-1'), tokenFor('node-2')]

/** Starts a service with authentication and these limits. */
async function authenticated(limits: Partial<LimitOptions>): Promise<string> {
  const service = await startTestService((write) => {
    const keysFile = write('keys.json', { keys: [jwkOf(keys.publicKey, { kid: 'one', alg: 'ES256' })] })
    return { authentication: { jwt: { keysFile, issuer, audience } }, limits }
  }, 'one')
  onTestFinished(() => service.close())
  return service.url
}

const campaignOf = (url: string, token: string, node_id: string, group: string, more: object = {}) =>
  ask(url, token, 'POST', `/v1/groups/${group}/campaign`, { node_id, lease_ttl_ms: 60_000, ...more })
const renewOf = (url: string, token: string, node_id: string, group: string) =>
  ask(url, token, 'POST', `/v1/groups/${group}/renew`, { node_id, term: 1, extend_by_ms: 60_000 })
const tooMany = {
  status: 429,
  body: { ok: false, error: 'RATE_LIMITED', retry_after_ms: expect.any(Number) as number },
}

describe('limits per subject', () => {
  test('a subject over its limit gets a time to retry, while its renewals and other subjects continue', async () => {
    const url = await authenticated({ requestsPerSecond: 10 })
    expect(await campaignOf(url, first, 'node-1', 'payments-1')).toMatchObject({ body: { is_leader: true } })
    const flood = await Promise.all(Array.from({ length: 200 }, () => campaignOf(url, first, 'node-1', 'payments-2')))
    const refused = flood.filter(({ status }) => status === 429)
    expect(refused.length).toBeGreaterThan(20)
    expect(flood.length - refused.length).toBeGreaterThanOrEqual(19)
    expect(refused[0]).toMatchObject(tooMany)
    expect(refused[0]?.headers.get('retry-after')).toMatch(/^[1-9]$/)
    expect(await campaignOf(url, second, 'node-2', 'payments-2')).toMatchObject({ status: 200 })
    const renewals = await Promise.all(Array.from({ length: 60 }, () => renewOf(url, first, 'node-1', 'payments-1')))
    expect(new Set(renewals.map(({ status }) => status))).toEqual(new Set([200]))
    const resign = await ask(url, first, 'POST', '/v1/groups/payments-1/resign', { node_id: 'node-1', term: 1 })
    expect(resign).toMatchObject({ status: 200 })
  })

  test('a batch that renews the same group repeatedly with different durations is refused', async () => {
    const url = await authenticated({})
    expect(await campaignOf(url, first, 'node-1', 'payments-1')).toMatchObject({ status: 200 })
    const renewals = Array.from({ length: 4_000 }, (_, index) => ({
      group_id: 'payments-1',
      term: 1,
      extend_by_ms: 100_001 + index,
    }))
    const { status, body } = await ask(url, first, 'POST', '/v1/renew', { node_id: 'node-1', renewals })
    expect(status).toBe(200)
    const [renewed, ...again] = (body as { results: { ok: boolean; error?: string }[] }).results
    expect(renewed).toMatchObject({ ok: true })
    expect(new Set(again.map(({ error }) => error))).toEqual(new Set(['INVALID_REQUEST']))
  })

  test('each renewal in a batch is charged to the subject', async () => {
    const url = await authenticated({ renewalsPerSecond: 100 })
    const item = { group_id: 'payments-1', term: 1, extend_by_ms: 1_000 }
    const renew = (token: string, node_id: string, count: number) =>
      ask(url, token, 'POST', '/v1/renew', { node_id, renewals: Array.from({ length: count }, () => item) })
    expect(await renew(first, 'node-1', 190)).toMatchObject({ status: 200 })
    expect(await renew(first, 'node-1', 190)).toMatchObject(tooMany)
    expect(await renew(second, 'node-2', 190)).toMatchObject({ status: 200 })
  })

  test('a request for many groups is charged as one request for every ten groups', async () => {
    const url = await authenticated({ requestsPerSecond: 10 })
    const list = Array.from({ length: 100 }, (_, at) => `payments-${at}`).join()
    for (const path of [`/v1/watch?groups=${list}`, '/v1/groups?limit=100']) {
      const token = tokenFor(`node-of-${path.length}`)
      // The burst is twenty requests, and each of these costs ten.
      const asked = await Promise.all(Array.from({ length: 5 }, () => ask(url, token, 'GET', path)))
      expect(asked.filter(({ status }) => status === 200).length).toBeGreaterThanOrEqual(2)
      expect(asked.find(({ status }) => status === 429)).toMatchObject(tooMany)
    }
  })

  test('a response is charged to the subject by the work that it takes', async () => {
    const url = await authenticated({ requestsPerSecond: 10 })
    const metadata = { text: 'x'.repeat(4_000) }
    await campaignOf(url, first, 'node-1', 'payments-1')
    for (const node_id of Array.from({ length: 15 }, (_, at) => `member-${at}`)) {
      const beat = { node_id, metadata }
      const beaten = await ask(url, tokenFor(node_id), 'POST', '/v1/groups/payments-1/heartbeat', beat)
      expect(beaten, JSON.stringify(beaten.body)).toMatchObject({
        status: 200,
      })
    }
    // Each of these requests costs more than half of the burst of twenty.
    const paths = ['/v1/changes?groups=payments-1', '/openapi.json', '/v1/groups/payments-1/members']
    for (const [index, path] of paths.entries()) {
      const token = tokenFor(`payer-${index}`)
      expect(await ask(url, token, 'GET', path), path).toMatchObject({ status: 200 })
      expect(await ask(url, token, 'GET', path), path).toMatchObject(tooMany)
    }
  })

  test('a batch with more renewals than the burst is accepted once, and the next batch is refused', async () => {
    const url = await authenticated({ renewalsPerSecond: 10 })
    const renewals = Array.from({ length: 50 }, () => ({ group_id: 'payments-1', term: 1, extend_by_ms: 1_000 }))
    const renew = () => ask(url, first, 'POST', '/v1/renew', { node_id: 'node-1', renewals })
    expect(await renew()).toMatchObject({ status: 200 })
    expect(await renew()).toMatchObject(tooMany)
  })

  test('a watch of many groups counts as one watch for every fifty groups', async () => {
    const url = await authenticated({ watchesPerSubject: 2 })
    const many = `/v1/watch?groups=${Array.from({ length: 51 }, (_, at) => `payments-${at}`).join()}`
    const one = () => ask(url, first, 'GET', '/v1/groups/payments-1/watch')
    const stream = open(url)
    const headers = [`Authorization: Bearer ${first}`, 'Accept: text/event-stream']
    stream.write(request(url, `GET ${many}`, headers))
    await new Promise((resolve) => stream.once('data', resolve))
    expect(await one()).toMatchObject(tooMany)
    stream.destroy()
    await expect.poll(one).toMatchObject({ status: 200 })
    expect(await ask(url, first, 'GET', many)).toMatchObject({ status: 200 })
  })

  test('a subject can create only a limited number of groups per hour', async () => {
    const url = await authenticated({ newGroupsPerHour: 3 })
    const tried = (group: string) => campaignOf(url, first, 'node-1', group)
    for (const group of ['payments-1', 'payments-2', 'payments-3'])
      expect(await tried(group)).toMatchObject({ status: 200 })
    expect(await tried('payments-4')).toMatchObject(tooMany)
    expect(await tried('payments-1')).toMatchObject({ status: 200 })
    expect(await campaignOf(url, second, 'node-2', 'payments-4')).toMatchObject({ body: { is_leader: true } })
    expect(await tried('payments-4')).toMatchObject({ status: 200, body: { is_leader: false } })
  })

  test('a subject raises the term of a group by at most 2^20 per grant, unless it is an administrator', async () => {
    const url = await authenticated({})
    const rights = { tenure: { admin: true, groups: ['payments-*'] } }
    const admin = tokenOf({ header, claims: claimsOf('root', rights), key: keys.privateKey })
    const jump = (token: string, node: string, after_term: number) =>
      campaignOf(url, token, node, 'payments-far', { after_term })
    expect(await jump(first, 'node-1', 2 ** 20 + 1)).toMatchObject({
      status: 400,
      body: { error: 'INVALID_REQUEST', highest_term: 0, message: expect.stringContaining('administrator') as string },
    })
    expect(await jump(admin, 'root', 2 ** 30)).toMatchObject({ status: 200, body: { leader: { term: 2 ** 30 + 1 } } })
  })

  test('the watches and waiting campaigns of a subject are limited, and their places are freed afterwards', async () => {
    const url = await authenticated({ watchesPerSubject: 2, waitingPerSubject: 2 })
    const line = 'GET /v1/groups/payments-1/watch'
    const bearer = (token: string) => [`Authorization: Bearer ${token}`, 'Accept: text/event-stream']
    const streams = [open(url), open(url)]
    for (const stream of streams) {
      stream.write(request(url, line, bearer(first)))
      await new Promise((resolve) => stream.once('data', resolve))
    }
    expectRefused(await send(url, request(url, line, bearer(first))), 429)
    expect(await ask(url, second, 'GET', '/v1/groups/payments-1/watch')).toMatchObject({ status: 200 })
    for (const stream of streams) stream.destroy()
    await Promise.all(streams.map(closed))
    await expect.poll(() => ask(url, first, 'GET', '/v1/groups/payments-1/watch')).toMatchObject({ status: 200 })

    await campaignOf(url, second, 'node-2', 'payments-1')
    const body = JSON.stringify({ node_id: 'node-1', lease_ttl_ms: 5_000, wait_ms: 60_000 })
    const waits = () => {
      const socket = open(url)
      const headers = [json, `Authorization: Bearer ${first}`]
      socket.write(request(url, 'POST /v1/groups/payments-1/campaign', headers, body))
      return socket
    }
    const line2 = [waits(), waits(), waits()]
    const [early] = await Promise.race(line2.map((socket) => answers(socket, 1)))
    expectRefused(early, 429)
    for (const socket of line2) socket.destroy()
    await Promise.all(line2.map(closed))
    const short = { wait_ms: 10 }
    await expect.poll(() => campaignOf(url, first, 'node-1', 'payments-1', short)).toMatchObject({ status: 200 })
  })
})

describe('limits without authentication', () => {
  const maxGroups = 500
  let service: Awaited<ReturnType<typeof serve>>
  let url: string
  beforeAll(async () => {
    service = await serve({ maxGroups, limits: { maxWaiting: 3 } }, 'one')
    url = service.url
  })
  afterAll(() => service.close())

  const groupCount = () => figureOf(service, 'tenure_groups')
  /** Sends the requests one after the other on one connection. */
  async function inOrder(requests: readonly Buffer[]): Promise<number[]> {
    const statuses: number[] = []
    for (let at = 0; at < requests.length; at += 200) {
      const socket = open(url)
      const part = requests.slice(at, at + 200)
      socket.write(Buffer.concat(part))
      statuses.push(...(await answers(socket, part.length)).map(({ status }) => status))
    }
    return statuses
  }

  test('renewals are not limited without authentication', async () => {
    await send(url, request(url, 'POST /v1/groups/led/campaign', [json], campaign))
    const renew = JSON.stringify({ node_id: 'a', term: 1, extend_by_ms: 5_000 })
    const statuses = await inOrder(
      Array.from({ length: 4_000 }, () => request(url, 'POST /v1/groups/led/renew', [json], renew)),
    )
    expect(new Set(statuses)).toEqual(new Set([200]))
    expect(statuses).toHaveLength(4_000)
  })

  test(
    'requests that name many groups create only the groups that a campaign has won',
    { timeout: 60_000 },
    async () => {
      // Renewals name 100,000 groups that do not exist.
      for (let round = 0; round < 5; round++) {
        const renewals = Array.from({ length: 20_000 }, (_, at) => ({
          group_id: `asked-${round}-${at}`,
          term: 1,
          extend_by_ms: 1_000,
        }))
        const body = JSON.stringify({ node_id: 'a', renewals })
        expect(await send(url, request(url, 'POST /v1/renew', [json], body))).toMatchObject({ status: 200 })
      }
      const bad = JSON.stringify({ node_id: 'a', lease_ttl_ms: 1 })
      const many = (what: (name: string) => Buffer) =>
        inOrder(Array.from({ length: 1_000 }, (_, at) => what(`n-${at}`)))
      expect(new Set(await many((name) => request(url, `GET /v1/groups/${name}/leader`)))).toEqual(new Set([200]))
      const refused = await many((name) => request(url, `POST /v1/groups/${name}/campaign`, [json], bad))
      expect(new Set(refused)).toEqual(new Set([400]))
      expect(await groupCount()).toBe(1)
      const won = await many((name) => request(url, `POST /v1/groups/${name}/campaign`, [json], campaign))
      expect(won.filter((status) => status === 200)).toHaveLength(maxGroups - 1)
      expect(won.filter((status) => status === 429)).toHaveLength(1_000 - maxGroups + 1)
      expect(await groupCount()).toBe(maxGroups)
      expectRefused(await send(url, request(url, 'PUT /v1/groups/one-more', [json], '{}')), 429)
      const known = await send(url, request(url, 'POST /v1/groups/n-1/campaign', [json], campaign))
      expect(known).toMatchObject({ status: 200 })
    },
  )

  test('the number of members of a group is limited', async () => {
    const beats = Array.from({ length: 1_500 }, (_, at) =>
      request(url, 'POST /v1/groups/led/heartbeat', [json], JSON.stringify({ node_id: `member-${at}` })),
    )
    expect(new Set(await inOrder(beats))).toEqual(new Set([200]))
    const shown = await send(url, request(url, 'GET /v1/groups/led/members'))
    const names = ((shown?.body['members'] ?? []) as { node_id: string }[]).map(({ node_id }) => node_id)
    expect(names.length).toBeLessThanOrEqual(1_001)
    expect(names).toContain('member-1499')
    expect(names).not.toContain('member-0')
  })

  test('the number of waiting campaigns is limited', async () => {
    await send(url, request(url, 'POST /v1/groups/led/campaign', [json], campaign))
    const waits = JSON.stringify({ node_id: 'b', lease_ttl_ms: 5_000, wait_ms: 300 })
    const sent = await Promise.all(
      Array.from({ length: 6 }, () => send(url, request(url, 'POST /v1/groups/led/campaign', [json], waits))),
    )
    const statuses = sent.map((answer) => answer?.status)
    expect(statuses.filter((status) => status === 429)).toHaveLength(3)
    expect(statuses.filter((status) => status === 200)).toHaveLength(3)
  })
})

test('incomplete bodies can use only a limited amount of memory', async () => {
  const service = await serve({ limits: { maxBodyBytes: 1_000_000 } }, 'one')
  onTestFinished(() => service.close())
  const { url } = service
  const batch = JSON.stringify({ node_id: 'a', renewals: [] }).padEnd(400_000)
  const half = () => {
    const socket = open(url)
    const whole = request(url, 'POST /v1/renew', [json], batch)
    socket.write(whole.subarray(0, whole.length / 2))
    return socket
  }
  const sockets = [half(), half(), half()]
  const refused = async () => (await send(url, request(url, 'POST /v1/renew', [json], batch)))?.status
  await expect.poll(refused, { timeout: 20_000 }).toBe(429)
  // Small requests continue, and abandoned bodies make room.
  expect(await send(url, request(url, 'POST /v1/groups/g/campaign', [json], campaign))).toMatchObject({ status: 200 })
  for (const socket of sockets) socket.destroy()
  await expect.poll(refused, { timeout: 20_000 }).toBe(400)
})

test('heartbeats of members can use only a limited amount of memory, however many groups there are', () => {
  const members = new Members({ memberTtlMs: 1_000, maxMembersPerGroup: 10, maxMemberBytes: 100_000 })
  const known = {
    allowed: [],
    last: undefined,
    leaderId: undefined,
    waiting: new Set<string>(),
    nowMs: 0,
    monotonicMs: 0,
  }
  const metadata = JSON.stringify({ text: 'x'.repeat(4_000) })
  for (let at = 0; at < 1_000; at++) members.note(`group-${at}`, 'a', metadata, 0)
  const counted = Array.from({ length: 1_000 }, (_, at) => members.list(`group-${at}`, known).length)
  expect(counted.reduce((sum, count) => sum + count)).toBe(Math.floor(100_000 / (200 + 1 + 11 + 4_000)))
  expect(counted.at(-1)).toBe(1)
  // Pruning frees all of it.
  members.prune(2_000)
  for (let at = 0; at < 20; at++) members.note(`again-${at}`, 'a', metadata, 2_000)
  expect(members.list('again-0', { ...known, nowMs: 2_000 })).toHaveLength(1)
})
