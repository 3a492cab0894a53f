import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ask as askUrl, startTestService, type Answer, type TestService } from './service.ts'
import { audience, claimsOf, ecKeys, issuer, jwkOf, signed } from './tokens.ts'

const { publicKey, privateKey } = ecKeys()
// There is only one key, so tokens need not name it.
const token = (sub: string, tenure: object) => signed({ alg: 'ES256' }, claimsOf(sub, { tenure }), privateKey)
const a = token('node-a', { groups: ['payments-*', 'shared'] })
const b = token('node-b', { groups: ['billing-*', 'shared'] })
const reader = token('dashboard', { reader: true })
const admin = token('operator', { admin: true })
const none = token('guest', {})

let service: TestService
beforeAll(async () => {
  service = await startTestService((write) => ({
    authentication: { jwt: { keysFile: write('keys.json', { keys: [jwkOf(publicKey)] }), issuer, audience } },
  }))
})
afterAll(() => service.close())

const ask = (who: string | undefined, method: string, path: string, body?: unknown): Promise<Answer> =>
  askUrl(service.url, who, method, path, body)
const campaign = (who: string, group: string, node_id: string, more: object = {}) =>
  ask(who, 'POST', `/v1/groups/${group}/campaign`, { node_id, lease_ttl_ms: 60_000, ...more })
const forbidden = { status: 403, body: { ok: false, error: 'UNAUTHORIZED' } }
const leaderOf = async (group: string) => (await ask(reader, 'GET', `/v1/groups/${group}/leader`)).body['leader']

let groups = 0
const newGroup = (prefix: string) => `${prefix}-${++groups}`

describe('nodes', () => {
  test('a node can campaign, renew, send heartbeats, and resign for itself in the groups of its token', async () => {
    const group = newGroup('payments')
    expect(await campaign(a, group, 'node-a')).toMatchObject({ status: 200, body: { is_leader: true } })
    const held = { node_id: 'node-a', term: 1 }
    expect(await ask(a, 'POST', `/v1/groups/${group}/renew`, { ...held, extend_by_ms: 60_000 })).toMatchObject({
      status: 200,
    })
    expect(await ask(a, 'POST', `/v1/groups/${group}/heartbeat`, { node_id: 'node-a' })).toMatchObject({ status: 200 })
    expect(await ask(a, 'POST', `/v1/groups/${group}/resign`, held)).toMatchObject({ status: 200 })
  })

  test('a node acts as the node that its token names, and not as its subject', async () => {
    const other = token('machine-7', { node: 'node-7', groups: ['payments-*'] })
    const group = newGroup('payments')
    expect(await campaign(other, group, 'machine-7')).toMatchObject(forbidden)
    expect(await campaign(other, group, 'node-7')).toMatchObject({ status: 200 })
  })

  test('a token with a node prefix acts only for nodes with that prefix', async () => {
    const controller = token('controller-east', { nodePrefix: 'east/', groups: ['payments-*'] })
    const group = newGroup('payments')
    for (const node of ['west/web-0', 'east', 'controller-east', 'North/east/web-0']) {
      expect(await campaign(controller, group, node)).toMatchObject(forbidden)
    }
    expect(await campaign(controller, group, 'east/web-0')).toMatchObject({ status: 200, body: { is_leader: true } })
    const held = { node_id: 'east/web-0', term: 1 }
    const other = token('controller-west', { nodePrefix: 'west/', groups: ['payments-*'] })
    expect(await ask(other, 'POST', `/v1/groups/${group}/resign`, held)).toMatchObject(forbidden)
    expect(await ask(controller, 'POST', `/v1/groups/${group}/resign`, held)).toMatchObject({ status: 200 })
  })

  test.each([
    ['campaign', { lease_ttl_ms: 60_000 }],
    ['renew', { term: 1, extend_by_ms: 120_000 }],
    ['resign', { term: 1 }],
    ['heartbeat', {}],
  ])('a node cannot %s for another node, even as a member of the same group', async (action, body) => {
    await campaign(a, 'shared', 'node-a', { request_id: 'one' })
    const before = await leaderOf('shared')
    expect(before).toMatchObject({ node_id: 'node-a', term: 1 })
    const path = `/v1/groups/shared/${action}`
    expect(await ask(b, 'POST', path, { node_id: 'node-a', ...body })).toMatchObject(forbidden)
    expect(await leaderOf('shared')).toMatchObject({
      node_id: 'node-a',
      term: 1,
      lease_expires_at_ms: expect.closeTo(
        (before as { lease_expires_at_ms: number }).lease_expires_at_ms,
        -2,
      ) as number,
    })
    const members = await ask(reader, 'GET', '/v1/groups/shared/members')
    expect(members.body['members']).toMatchObject([{ node_id: 'node-a' }])
  })

  test('a node cannot make another node look alive with a watch, in one group or in many', async () => {
    const [own, foreign] = [newGroup('payments'), newGroup('billing')]
    await campaign(a, own, 'node-a')
    expect(await ask(a, 'GET', `/v1/groups/${own}/watch?node_id=node-b`)).toMatchObject(forbidden)
    // A reader can see a group but cannot take part in it.
    expect(await ask(reader, 'GET', `/v1/groups/${own}/watch?node_id=node-a`)).toMatchObject(forbidden)
    expect(await ask(a, 'GET', `/v1/watch?groups=${own},${foreign}&node_id=node-a`)).toMatchObject(forbidden)
    expect(await ask(a, 'GET', `/v1/groups/${own}/watch?node_id=node-a`)).toMatchObject({ status: 200 })
    const { body } = await ask(a, 'GET', `/v1/groups/${own}/members`)
    expect(body['members']).toMatchObject([{ node_id: 'node-a' }])
  })

  test('a node cannot renew for another node in a batch', async () => {
    const group = newGroup('billing')
    await campaign(b, group, 'node-b')
    const renewals = [{ group_id: group, term: 1, extend_by_ms: 60_000 }]
    const refused = { results: [{ group_id: group, ok: false, error: 'UNAUTHORIZED' }] }
    const speaksForAnother = { status: 403, body: { error: 'UNAUTHORIZED', field: 'node_id' } }
    expect(await ask(b, 'POST', '/v1/renew', { node_id: 'node-b', renewals })).toMatchObject({
      body: { results: [{ ok: true }] },
    })
    expect(await ask(a, 'POST', '/v1/renew', { node_id: 'node-b', renewals })).toMatchObject(speaksForAnother)
    expect(await ask(a, 'POST', '/v1/renew', { node_id: 'node-a', renewals })).toMatchObject({ body: refused })
  })

  test('a node cannot see groups that it may not join, nor whether they exist', async () => {
    const group = newGroup('billing')
    await campaign(b, group, 'node-b')
    const absent = newGroup('billing')
    for (const rest of ['', '/leader', '/members', '/watch']) {
      const there = await ask(a, 'GET', `/v1/groups/${group}${rest}`)
      const notThere = await ask(a, 'GET', `/v1/groups/${absent}${rest}`)
      expect(there).toMatchObject(forbidden)
      expect(notThere).toMatchObject(forbidden)
      expect(String(there.body['message']).replace(group, absent)).toBe(notThere.body['message'])
    }
    expect(await ask(a, 'GET', `/v1/watch?groups=shared,${group}`)).toMatchObject(forbidden)
    expect(await ask(b, 'GET', `/v1/groups/${group}/leader`)).toMatchObject({ status: 200 })
  })

  test('a node lists only its own groups, in pages that name no other group', async () => {
    for (const name of ['billing-a1', 'billing-a2', 'billing-a3']) await campaign(b, name, 'node-b')
    for (const name of ['payments-a1', 'payments-a2']) await campaign(a, name, 'node-a')
    const seen: string[] = []
    let next: string | null | undefined
    do {
      const after = next === undefined ? '' : `&after=${next}`
      const answer = await ask(a, 'GET', `/v1/groups?limit=1${after}`)
      expect(answer.status).toBe(200)
      expect(JSON.stringify(answer.body)).not.toContain('billing')
      seen.push(...(answer.body['groups'] as { group_id: string }[]).map(({ group_id }) => group_id))
      next = answer.body['next'] as string | null
    } while (next !== null)
    const all = await ask(reader, 'GET', '/v1/groups')
    const names = (all.body['groups'] as { group_id: string }[]).map(({ group_id }) => group_id)
    expect(names).toEqual(expect.arrayContaining(['billing-a1', 'payments-a1']))
    expect(seen).toEqual(names.filter((name) => /^payments-|^shared$/.test(name)))
    expect(await ask(a, 'GET', `/v1/groups?after=~${'A'.repeat(208)}`)).toMatchObject({ status: 400 })
  })

  test('pages of groups reveal nothing about groups that the caller may not see', async () => {
    const spy = token('spy', { groups: ['zebra', 'zulu'] })
    for (const group_id of ['zebra', 'zulu']) await ask(admin, 'POST', '/v1/groups', { group_id })
    const list = async (query: string) => (await ask(spy, 'GET', `/v1/groups?${query}`)).body
    const shown = (page: Record<string, unknown>) =>
      (page['groups'] as { group_id: string }[]).map(({ group_id }) => group_id)
    /** Everything that the spy can learn, except for sealed strings, which are different each time. */
    const told = async () => {
      const pages: unknown[] = []
      for (const limit of [1, 2, 3, 100]) {
        for (const start of ['', '&after=zebra', '&after=zulu']) {
          const page = await list(`limit=${limit}${start}`)
          pages.push([shown(page), String(page['next']).length])
        }
      }
      return pages
    }
    const before = await told()
    expect(before[0]).toEqual([['zebra'], expect.any(Number)])
    expect(before[3]).toEqual([['zebra', 'zulu'], 'null'.length])
    for (const group_id of ['aaa', 'zebra-2', 'zz']) await ask(admin, 'POST', '/v1/groups', { group_id })
    expect(await told()).toEqual(before)
    for (const name of ['aaa', 'zebra-2', 'nothing-at-all']) {
      expect(await ask(spy, 'GET', `/v1/groups?after=${name}`)).toMatchObject(forbidden)
    }
    const { next } = await list('limit=1')
    expect(next).not.toContain('zebra')
    const second = await list(`limit=1&after=${String(next)}`)
    expect([shown(second), second['next']]).toEqual([['zulu'], null])
    expect((await ask(reader, 'GET', '/v1/groups?after=zebra&limit=1')).body).toMatchObject({
      groups: [{ group_id: 'zebra-2' }],
      next: 'zebra-2',
    })
  })

  test('a node cannot define or delete groups', async () => {
    const group_id = newGroup('payments')
    expect(await ask(a, 'POST', '/v1/groups', { group_id })).toMatchObject(forbidden)
    expect(await ask(a, 'PUT', `/v1/groups/${group_id}`, {})).toMatchObject(forbidden)
    await campaign(a, group_id, 'node-a')
    expect(await ask(a, 'DELETE', `/v1/groups/${group_id}?force=true`)).toMatchObject(forbidden)
    expect(await leaderOf(group_id)).toMatchObject({ node_id: 'node-a' })
  })

  test('a token without groups cannot join any group', async () => {
    expect(await campaign(none, newGroup('payments'), 'guest')).toMatchObject(forbidden)
    expect(await ask(none, 'GET', '/v1/groups')).toMatchObject({ status: 200, body: { groups: [] } })
  })
})

test('a reader sees everything and changes nothing', async () => {
  const group = newGroup('payments')
  await campaign(a, group, 'node-a')
  for (const path of [`/v1/groups/${group}`, `/v1/groups/${group}/leader`, `/v1/groups/${group}/members`, '/metrics']) {
    expect(await ask(reader, 'GET', path)).toMatchObject({ status: 200 })
  }
  expect(await campaign(reader, group, 'dashboard')).toMatchObject(forbidden)
  expect(await ask(reader, 'POST', `/v1/groups/${group}/heartbeat`, { node_id: 'dashboard' })).toMatchObject(forbidden)
  expect(await ask(reader, 'POST', '/v1/groups', { group_id: 'x' })).toMatchObject(forbidden)
  expect(await ask(reader, 'DELETE', `/v1/groups/${group}?force=true`)).toMatchObject(forbidden)
})

test('an administrator manages groups but takes part only in the groups of its token', async () => {
  const group_id = newGroup('payments')
  expect(await ask(admin, 'POST', '/v1/groups', { group_id })).toMatchObject({ status: 201 })
  expect(await ask(admin, 'GET', `/v1/groups/${group_id}`)).toMatchObject({ status: 200 })
  expect(await campaign(admin, group_id, 'operator')).toMatchObject(forbidden)
  expect(await campaign(admin, group_id, 'node-a')).toMatchObject(forbidden)
  const both = token('operator', { admin: true, groups: ['payments-*'] })
  expect(await campaign(both, group_id, 'node-a')).toMatchObject(forbidden)
  expect(await campaign(both, group_id, 'operator')).toMatchObject({ status: 200, body: { is_leader: true } })
  expect(await ask(admin, 'DELETE', `/v1/groups/${group_id}?force=true`)).toMatchObject({ status: 200 })
})

test("only an administrator can force-resign another node's term, and the group is held until its lease would expire", async () => {
  const group = 'payments-deposed'
  const won = await campaign(a, group, 'node-a')
  expect(won).toMatchObject({ status: 200, body: { is_leader: true } })
  const body = { node_id: 'node-a', term: 1, force: true }
  for (const who of [a, reader, none]) {
    expect(await ask(who, 'POST', `/v1/groups/${group}/resign`, body)).toMatchObject(forbidden)
  }
  // Without force, an administrator may not act on behalf of a node.
  expect(await ask(admin, 'POST', `/v1/groups/${group}/resign`, { ...body, force: false })).toMatchObject(forbidden)
  expect(await ask(admin, 'POST', `/v1/groups/${group}/resign`, body)).toMatchObject({
    status: 200,
    body: { ok: true },
  })
  const { body: standing } = await ask(a, 'GET', `/v1/groups/${group}/leader`)
  expect(standing).toMatchObject({ leader: null, previous_leader: { node_id: 'node-a' } })
  expect(standing['retry_after_ms']).toBeGreaterThan(0)
  const renewed = await ask(a, 'POST', `/v1/groups/${group}/renew`, { node_id: 'node-a', term: 1, extend_by_ms: 5_000 })
  expect(renewed).toMatchObject({ status: 409, body: { error: 'NOT_LEADER' } })
  expect(await ask(admin, 'GET', '/v1/identity')).toMatchObject({ status: 200, body: { admin: true } })
  expect(await ask(a, 'GET', '/v1/identity')).toMatchObject({ status: 200, body: { admin: false, reader: false } })
  expect(await ask(a, 'GET', '/v1/changes?groups=other-group')).toMatchObject(forbidden)
})

describe('callers without an identity', () => {
  test('every route except health and the page answers 401 without an identity, whether it exists or not', async () => {
    const { body } = await ask(admin, 'GET', '/openapi.json')
    const paths = Object.entries(body['paths'] as Record<string, Record<string, unknown>>).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => [method.toUpperCase(), path.replace('{group_id}', 'payments-1')] as const),
    )
    expect(paths.length).toBeGreaterThan(14)
    const isOpen = (path: string) => path === '/healthz' || path === '/readyz'
    const closed = [
      ...paths.filter(([, path]) => !isOpen(path)),
      ...[
        '/metrics',
        '/openapi.json',
        '/page',
        '/page/x/y',
        '/v1',
        '/v2/groups',
        '/admin',
        '/healthz/',
        '/healthz/x',
        '/HEALTHZ',
      ].map((path) => ['GET', path] as const),
      ...['HEAD', 'OPTIONS', 'PATCH', 'DELETE'].map((method) => [method, '/v1/groups/payments-1/leader'] as const),
    ]
    for (const who of [undefined, 'x.y.z']) {
      const texts = new Set<string>()
      for (const [method, path] of closed) {
        const hasBody = ['POST', 'PUT', 'PATCH'].includes(method)
        const answer = await ask(who, method, path, hasBody ? { not: 'looked at' } : undefined)
        expect({ method, path, status: answer.status }).toEqual({ method, path, status: 401 })
        expect(answer.headers.get('www-authenticate')).toBe('Bearer')
        if (method !== 'HEAD') texts.add(String(answer.body['message']))
      }
      expect(texts.size).toBe(1)
      for (const path of ['/healthz', '/readyz']) {
        expect(await ask(who, 'GET', path)).toMatchObject({ status: 200, body: { ok: true } })
        expect(await ask(who, 'HEAD', path)).toMatchObject({ status: 200 })
      }
      // The page shows nothing by itself, to any caller.
      const page = await fetch(`${service.url}/`, { headers: { accept: 'text/html' } })
      expect(page.status).toBe(200)
      expect((await fetch(`${service.url}/page/no-such-file.js`)).status).toBe(404)
    }
  })

  test.each([
    '//v1/groups',
    '/v1//groups',
    '/v1/groups/../groups',
    '/v1/groups/%2e%2e/groups',
    '/v1/groups;x',
    '/%76%31/groups',
  ])('another spelling of a path does not bypass authentication: %s', async (path) => {
    const { status, body } = await ask(undefined, 'GET', path)
    expect([400, 401, 404]).toContain(status)
    expect(body).not.toHaveProperty('groups')
  })

  test('metrics need the reader right, and the OpenAPI document needs only an identity', async () => {
    for (const path of ['/metrics', '/v1/replicas']) {
      expect(await ask(a, 'GET', path)).toMatchObject(forbidden)
      for (const who of [reader, admin]) expect(await ask(who, 'GET', path)).toMatchObject({ status: 200 })
    }
    expect(await ask(none, 'GET', '/openapi.json')).toMatchObject({ status: 200 })
  })
})

describe('replayed requests after a handover', () => {
  const handOver = async () => {
    const group = newGroup('relay')
    const [one, two] = [token('node-1', { groups: ['relay-*'] }), token('node-2', { groups: ['relay-*'] })]
    const asked = {
      node_id: 'node-1',
      lease_ttl_ms: 60_000,
      attempt: 'first',
      instance_start_uuid: 'i',
      request_id: 'r',
    }
    const captured = {
      campaign: asked,
      renew: { node_id: 'node-1', term: 1, extend_by_ms: 120_000 },
      resign: { node_id: 'node-1', term: 1 },
    }
    const send = (action: keyof typeof captured) => ask(one, 'POST', `/v1/groups/${group}/${action}`, captured[action])
    for (const action of ['campaign', 'renew', 'resign'] as const)
      expect(await send(action)).toMatchObject({ status: 200 })
    expect(await campaign(two, group, 'node-2')).toMatchObject({ body: { is_leader: true, leader: { term: 2 } } })
    return { group, two, send }
  }

  test('a replayed request changes nothing while the successor leads', async () => {
    const { group, send } = await handOver()
    const before = await leaderOf(group)
    expect(await send('campaign')).toMatchObject({ status: 200, body: { is_leader: false } })
    expect(await send('renew')).toMatchObject({ status: 409, body: { error: 'NOT_LEADER' } })
    expect(await send('resign')).toMatchObject({ status: 409, body: { error: 'NOT_LEADER' } })
    const { lease_remaining_ms: _was, ...same } = before as Record<string, unknown>
    expect(await leaderOf(group)).toMatchObject({
      ...same,
      lease_expires_at_ms: expect.closeTo(same['lease_expires_at_ms'] as number, -2) as number,
    })
  })

  test("a replayed request does not revive the sender's own lease", async () => {
    const { send, group } = await handOver()
    const fresh = newGroup('relay')
    const one = token('node-1', { groups: ['relay-*'] })
    const asked = { attempt: 'once' }
    expect(await campaign(one, fresh, 'node-1', asked)).toMatchObject({ body: { is_leader: true } })
    await ask(one, 'POST', `/v1/groups/${fresh}/resign`, { node_id: 'node-1', term: 1 })
    expect(await campaign(one, fresh, 'node-1', asked)).toMatchObject({ body: { is_leader: false } })
    expect(await send('renew')).toMatchObject({ status: 409 })
    expect(await leaderOf(fresh)).toBeNull()
    expect(await leaderOf(group)).toMatchObject({ node_id: 'node-2' })
  })

  test("a replayed request is refused when it has another caller's token", async () => {
    const { group, two } = await handOver()
    const resign = { node_id: 'node-1', term: 1 }
    expect(await ask(two, 'POST', `/v1/groups/${group}/resign`, resign)).toMatchObject(forbidden)
  })
})
