import { hostname } from 'node:os'
import { setTimeout as delay } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { isOneProcess, serve, type Served } from '../service-under-test.ts'

let service: Served
beforeAll(async () => {
  service = await serve()
})
afterAll(() => service.close())

interface Answer {
  readonly status: number
  // The shape differs by route. Each test states what it expects.
  readonly body: Record<string, unknown>
}

async function ask(
  method: string,
  path: string,
  body?: unknown,
  headers: Record<string, string> = {},
): Promise<Answer> {
  const response = await fetch(service.url + path, {
    method,
    // Each request uses a dedicated connection, so that any process may answer it.
    headers: { connection: 'close', ...(body !== undefined && { 'content-type': 'application/json' }), ...headers },
    ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  })
  return { status: response.status, body: (await response.json()) as Record<string, unknown> }
}

let groups = 0
const newGroup = () => `group-${++groups}`
const campaign = (group: string, node_id: string, more: object = {}) =>
  ask('POST', `/v1/groups/${group}/campaign`, { node_id, lease_ttl_ms: 5000, ...more })

describe('the documented routes', () => {
  test('a campaign is won with a term, or lost with the leader and a time to retry', async () => {
    const group = newGroup()
    const metadata = { ip: '10.0.1.7', zone: 'az-a', version: '1.4.2' }
    const won = await campaign(group, 'node_17', { metadata })
    const leader = { node_id: 'node_17', term: 1, lease_expires_at_ms: expect.any(Number) as number }
    expect(won).toMatchObject({ status: 200, body: { is_leader: true, leader } })
    const lost = await campaign(group, 'node_03')
    expect(lost).toMatchObject({ status: 200, body: { is_leader: false, leader } })
    expect(lost.body['retry_after_ms']).toBeGreaterThan(4_000)
    expect(lost.body['retry_after_ms']).toBeLessThanOrEqual(5_000)
    const shown = await ask('GET', `/v1/groups/${group}/leader`)
    expect(shown).toMatchObject({ status: 200, body: { leader: { ...leader, metadata } } })
  })

  test('a resignation names its successor, and refuses the node itself', async () => {
    const group = newGroup()
    await campaign(group, 'node_17')
    const resign = (successor: unknown) =>
      ask('POST', `/v1/groups/${group}/resign`, { node_id: 'node_17', term: 1, successor })
    const invalid = { status: 400, body: { error: 'INVALID_REQUEST' } }
    expect(await resign('node_17')).toMatchObject(invalid)
    expect(await resign('')).toMatchObject(invalid)
    expect(await resign(3)).toMatchObject(invalid)
    expect(await resign('node_3 ')).toMatchObject({
      ...invalid,
      body: { message: expect.stringMatching(/^successor/) },
    })
    expect(await resign('node_3')).toMatchObject({ status: 200, body: { leader: { successor: 'node_3' } } })
    const shown = await ask('GET', `/v1/groups/${group}/leader`)
    expect(shown).toMatchObject({ body: { leader: null, previous_leader: { term: 1, successor: 'node_3' } } })
    const next = await campaign(group, 'node_3')
    expect(next).toMatchObject({ body: { is_leader: true } })
    expect(next.body['leader']).not.toHaveProperty('successor')
  })

  test.each([
    { ending: 'a resignation', force: false },
    { ending: 'a forced resignation', force: true },
  ])('$ending leads to the successor that it names, ahead of campaigns that wait longer', async ({ force }) => {
    const group = newGroup()
    const call = (verb: string, body: object) => ask('POST', `/v1/groups/${group}/${verb}`, body)
    const leader = { node_id: 'node_17', term: 1 }
    await campaign(group, 'node_17', { lease_ttl_ms: 10_000 })
    const wins: string[] = []
    const campaigns: Promise<unknown>[] = []
    for (const [index, node] of ['node_1', 'node_2', 'node_3'].entries()) {
      const waits = campaign(group, node, { wait_ms: 60_000, lease_ttl_ms: 60_000 })
      campaigns.push(waits.then(({ body }) => body['is_leader'] === true && wins.push(node)))
      await expect
        .poll(async () => (await ask('GET', `/v1/groups/${group}`)).body['group'])
        .toMatchObject({ waiting: index + 1 })
      // A lease that has expired cannot be handed over.
      expect(await call('renew', { ...leader, extend_by_ms: 10_000 })).toMatchObject({ status: 200 })
    }
    const resigned = await call('resign', { ...leader, successor: 'node_3', force })
    expect(resigned).toMatchObject({ status: 200, body: { leader: { successor: 'node_3' } } })
    await expect.poll(() => wins, { timeout: 20_000 }).toEqual(['node_3'])
    expect(await ask('GET', `/v1/groups/${group}/leader`)).toMatchObject({
      body: { leader: { node_id: 'node_3', term: 2 } },
    })
    await call('resign', { node_id: 'node_3', term: 2 })
    await expect.poll(() => wins).toEqual(['node_3', 'node_1'])
    await call('resign', { node_id: 'node_1', term: 3 })
    await Promise.all(campaigns)
    expect(wins).toEqual(['node_3', 'node_1', 'node_2'])
  })

  test('a renewal extends the lease, and is refused with a wrong node and term', async () => {
    const group = newGroup()
    await campaign(group, 'node_17')
    const renew = (change: object) =>
      ask('POST', `/v1/groups/${group}/renew`, { node_id: 'node_17', term: 1, extend_by_ms: 5000, ...change })
    expect(await renew({})).toMatchObject({ status: 200, body: { ok: true, leader: { node_id: 'node_17', term: 1 } } })
    expect(await renew({ node_id: 'node_03', term: 2 })).toMatchObject({
      status: 409,
      body: { ok: false, error: 'NOT_LEADER', current_leader: { node_id: 'node_17', term: 1 } },
    })
  })

  test('a resignation frees the group', async () => {
    const group = newGroup()
    await campaign(group, 'node_17')
    const resign = await ask('POST', `/v1/groups/${group}/resign`, { node_id: 'node_17', term: 1 })
    expect(resign).toMatchObject({ status: 200, body: { ok: true } })
    expect(await ask('GET', `/v1/groups/${group}/leader`)).toMatchObject({ body: { leader: null } })
  })

  test('a group is created with a policy', async () => {
    const group_id = newGroup()
    const definition = { policy: { min_ttl_ms: 2000, max_ttl_ms: 15000 }, allowed_nodes: ['node_01', 'node_02'] }
    expect(await ask('POST', '/v1/groups', { group_id, ...definition })).toMatchObject({ status: 201 })
    expect(await ask('POST', '/v1/groups', { group_id, ...definition })).toMatchObject({ status: 200 })
    expect(await ask('POST', '/v1/groups', { group_id })).toMatchObject({ status: 409, body: { error: 'CONFLICT' } })
    expect(await campaign(group_id, 'node_01', { lease_ttl_ms: 1000 })).toMatchObject({
      status: 400,
      body: { error: 'INVALID_TTL', min_ttl_ms: 2000, max_ttl_ms: 15000 },
    })
    expect(await campaign(group_id, 'node_09')).toMatchObject({ status: 403, body: { error: 'UNAUTHORIZED' } })
  })

  test('a watch reports a change by stream and by long poll', async () => {
    const group = newGroup()
    const path = `/v1/groups/${group}/watch`
    const first = await ask('GET', path)
    expect(first.body['events']).toMatchObject([{ type: 'STATE', group_id: group, leader: null }])
    const stream = await fetch(service.url + path, { headers: { accept: 'text/event-stream' } })
    const polled = ask('GET', `${path}?cursor=${String(first.body['cursor'])}`)
    await campaign(group, 'node_09')
    const change = { type: 'LEADER_CHANGED', group_id: group, term: 1, leader_node_id: 'node_09' }
    expect((await polled).body['events']).toMatchObject([{ ...change, ts_ms: expect.any(Number) as number }])
    const told: { type: string }[] = []
    for await (const chunk of stream.body ?? []) {
      const lines = Buffer.from(chunk as Uint8Array)
        .toString()
        .split('\n')
      for (const line of lines) if (line.startsWith('data: ')) told.push(JSON.parse(line.slice(6)) as { type: string })
      if (told.some(({ type }) => type === 'LEADER_CHANGED')) break
    }
    expect(told.at(-1)).toMatchObject(change)
  })
})

describe('watches', () => {
  const eventsAfter = async (group: string, cursor: unknown, headers = {}) =>
    ask('GET', `/v1/groups/${group}/watch?cursor=${String(cursor)}&wait_ms=0`, undefined, headers)

  test('a watch continues exactly at its cursor', async () => {
    const group = newGroup()
    const { body } = await ask('GET', `/v1/groups/${group}/watch`)
    await campaign(group, 'a')
    await ask('POST', `/v1/groups/${group}/resign`, { node_id: 'a', term: 1 })
    await campaign(group, 'b')
    const types = async () => {
      const { body: answer } = await eventsAfter(group, body['cursor'])
      return (answer['events'] as { type: string }[]).map(({ type }) => type)
    }
    // A replica that is not active receives the changes a moment later.
    await expect.poll(types, { timeout: 10_000 }).toEqual(['LEADER_CHANGED', 'LEADER_LOST', 'LEADER_CHANGED'])
  })

  test.each(['x', '-1', '7', '0123456789abcdef.7', 'A'.repeat(59), 'A'.repeat(86)])(
    'a watch refuses the invalid cursor %s',
    async (cursor) => {
      expect(await eventsAfter(newGroup(), cursor)).toMatchObject({ status: 400, body: { error: 'INVALID_REQUEST' } })
    },
  )
})

describe('campaigns', () => {
  test('a strict campaign that loses is answered with 409', async () => {
    const group = newGroup()
    await campaign(group, 'a')
    expect(await campaign(group, 'b', { strict: true })).toMatchObject({
      status: 409,
      body: { ok: false, error: 'CONFLICT', current_leader: { node_id: 'a', term: 1 } },
    })
  })

  test('a strict campaign that loses because its own node already leads says so', async () => {
    const group = newGroup()
    const lost = async (node: string) => (await campaign(group, node, { strict: true })).body['message']
    const { body } = await campaign(group, 'a')
    expect(await lost('a')).toMatch(/^Node "a" already leads group "[^"]+", from another campaign\./)
    expect(await lost('b')).toMatch(/^Another node leads group/)
    const { term } = body['leader'] as { term: number }
    await ask('POST', `/v1/groups/${group}/resign`, { node_id: 'a', term })
    const late = await campaign(group, 'a', { strict: true, attempt: 'x', after_term: 0 })
    expect(late).toMatchObject({
      status: 409,
      body: { message: expect.stringMatching(/^Group "[^"]+" has no leader/) as string },
    })
  })

  test('a campaign with the same instance or request id is the same candidacy', async () => {
    for (const same of [{ instance_start_uuid: 'one' }, { request_id: 'one' }]) {
      const group = newGroup()
      await campaign(group, 'a', same)
      expect(await campaign(group, 'a', same)).toMatchObject({ body: { is_leader: true, leader: { term: 1 } } })
      expect(await campaign(group, 'a')).toMatchObject({ body: { is_leader: false } })
      expect(await campaign(group, 'b', same)).toMatchObject({ body: { is_leader: false } })
    }
  })

  test('a campaign waits for its turn', async () => {
    const group = newGroup()
    await campaign(group, 'a')
    const waiting = campaign(group, 'b', { wait_ms: 10_000 })
    await ask('POST', `/v1/groups/${group}/resign`, { node_id: 'a', term: 1 })
    const { body } = await waiting
    expect(body).toMatchObject({ is_leader: true, leader: { node_id: 'b', term: 2 } })
  })
})

describe('instances of a node', () => {
  const mine = { node_id: 'a', instance_start_uuid: 'one' }

  test('another instance of a node can neither renew nor resign, and the instance is shown with the leader', async () => {
    const group = newGroup()
    await campaign(group, 'a', mine)
    const post = (verb: string, body: object) => ask('POST', `/v1/groups/${group}/${verb}`, body)
    const renew = (more: object) => post('renew', { ...mine, term: 1, extend_by_ms: 5_000, ...more })
    const notLeader = {
      status: 409,
      body: { error: 'NOT_LEADER', current_leader: { node_id: 'a', instance_start_uuid: 'one' } },
    }
    expect(await renew({ instance_start_uuid: 'two' })).toMatchObject(notLeader)
    expect(await post('resign', { ...mine, instance_start_uuid: 'two', term: 1 })).toMatchObject(notLeader)
    expect(await renew({})).toMatchObject({ status: 200, body: { leader: { instance_start_uuid: 'one' } } })
    expect(await ask('GET', `/v1/groups/${group}/leader`)).toMatchObject({
      body: { leader: { node_id: 'a', instance_start_uuid: 'one' } },
    })
    expect(await post('heartbeat', { node_id: 'b', instance_start_uuid: 'three', group_id: group })).toMatchObject({
      status: 200,
    })
    const { body } = await ask('GET', `/v1/groups/${group}/members`)
    expect(body['members']).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ node_id: 'a', role: 'leader', instance_start_uuid: 'one' }),
        expect.objectContaining({ node_id: 'b', role: 'candidate', instance_start_uuid: 'three' }),
      ]),
    )
    // A repeated call gets the same answer, and only the instance that was granted the term can end it.
    expect(await post('resign', { ...mine, term: 1 })).toMatchObject({ status: 200 })
    expect(await post('resign', { ...mine, term: 1 })).toMatchObject({ status: 200 })
    expect(await post('resign', { ...mine, instance_start_uuid: 'two', term: 1 })).toMatchObject({ status: 409 })
  })

  test('the instance is compared only if the grant has one', async () => {
    const group = newGroup()
    await campaign(group, 'a', { request_id: 'first' })
    const renewal = { ...mine, term: 1, extend_by_ms: 5_000 }
    expect(await ask('POST', `/v1/groups/${group}/renew`, renewal)).toMatchObject({ status: 200 })
    const { body } = await ask('GET', `/v1/groups/${group}/leader`)
    expect(body['leader']).not.toHaveProperty('instance_start_uuid')
  })

  test('the instance is recorded even if the campaign has an attempt', async () => {
    const group = newGroup()
    await campaign(group, 'a', { ...mine, attempt: 'of-the-library' })
    const renewal = { ...mine, term: 1, extend_by_ms: 5_000, instance_start_uuid: 'two' }
    expect(await ask('POST', `/v1/groups/${group}/renew`, renewal)).toMatchObject({ status: 409 })
  })

  test('a group_id in the body that differs from the path is refused', async () => {
    const group = newGroup()
    const post = (verb: string, body: object) => ask('POST', `/v1/groups/${group}/${verb}`, body)
    const own = { ...mine, group_id: group }
    const other = { ...mine, group_id: 'another' }
    const refused = {
      status: 400,
      body: { error: 'INVALID_REQUEST', message: expect.stringContaining('group_id') as string },
    }
    expect(await post('campaign', { ...other, lease_ttl_ms: 5_000 })).toMatchObject(refused)
    expect(await post('campaign', { ...own, lease_ttl_ms: 5_000 })).toMatchObject({ body: { is_leader: true } })
    const held = { term: 1, extend_by_ms: 5_000 }
    expect(await post('renew', { ...other, ...held })).toMatchObject(refused)
    expect(await post('renew', { ...own, ...held })).toMatchObject({ status: 200 })
    expect(await post('heartbeat', other)).toMatchObject(refused)
    expect(await post('heartbeat', own)).toMatchObject({ status: 200 })
    expect(await post('resign', { ...other, term: 1 })).toMatchObject(refused)
    expect(await post('resign', { ...own, term: 1 })).toMatchObject({ status: 200 })
  })

  test('a node that already leads gets a message that says what to do', async () => {
    const group = newGroup()
    await campaign(group, 'a', mine)
    const again = await campaign(group, 'a', { instance_start_uuid: 'two' })
    expect(again).toMatchObject({ status: 200, body: { is_leader: false, leader: { node_id: 'a', term: 1 } } })
    expect(again.body['message']).toMatch(/^Node "a" already leads group "[^"]+", .*Renew .* term 1, .*resign/)
    const lost = await campaign(group, 'b')
    expect(lost.body).not.toHaveProperty('message')
    expect((await campaign(group, 'a', mine)).body).not.toHaveProperty('message')
  })
})

describe('waiting campaigns', () => {
  test('a waiting campaign is abandoned when its client disconnects, and the next one wins', async () => {
    const group = newGroup()
    await campaign(group, 'a')
    const gone = new AbortController()
    const leaving = fetch(`${service.url}/v1/groups/${group}/campaign`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ node_id: 'gone', lease_ttl_ms: 5000, wait_ms: 60_000 }),
      signal: gone.signal,
    }).catch(() => undefined)
    // Whatever the order of the three requests, the client that is still connected must win.
    await delay(50)
    const waiting = campaign(group, 'b', { wait_ms: 20_000 })
    await delay(50)
    gone.abort()
    await leaving
    await delay(50)
    await ask('POST', `/v1/groups/${group}/resign`, { node_id: 'a', term: 1 })
    expect(await waiting).toMatchObject({ body: { is_leader: true, leader: { node_id: 'b', term: 2 } } })
  })

  test('a campaign that loses gets a time to retry, even if nobody leads', async () => {
    const group = newGroup()
    await campaign(group, 'a', { attempt: 'once' })
    await ask('POST', `/v1/groups/${group}/resign`, { node_id: 'a', term: 1 })
    const again = await campaign(group, 'a', { attempt: 'once' })
    expect(again).toMatchObject({ status: 200, body: { is_leader: false, leader: null } })
    expect(again.body['retry_after_ms']).toBeGreaterThan(0)
  })
})

test('a leader renews only within the bounds of a changed definition, and not once it is no longer allowed', async () => {
  const group = newGroup()
  await campaign(group, 'a')
  const policy = { min_ttl_ms: 2_000, max_ttl_ms: 9_000 }
  const put = (allowed_nodes: string[]) => ask('PUT', `/v1/groups/${group}`, { policy, allowed_nodes })
  const allowed = await put(['a', 'b'])
  expect(allowed).toMatchObject({ status: 201, body: { ok: true } })
  expect(allowed.body).not.toHaveProperty('removed_leader')
  const renew = (extend_by_ms: number) =>
    ask('POST', `/v1/groups/${group}/renew`, { node_id: 'a', term: 1, extend_by_ms })
  expect(await renew(9_000)).toMatchObject({ status: 200, body: { leader: { node_id: 'a', term: 1 } } })
  expect(await renew(9_001)).toMatchObject({ status: 400, body: { error: 'INVALID_TTL' } })
  const removed = { node_id: 'a', term: 1, lease_remaining_ms: expect.any(Number) as number }
  expect(await put(['b'])).toMatchObject({ status: 200, body: { ok: true, removed_leader: removed } })
  // A repeated definition gets the same answer, because the lease is still live.
  expect(await put(['b'])).toMatchObject({ body: { removed_leader: removed } })
  expect(await renew(9_000)).toMatchObject({
    status: 403,
    body: { error: 'UNAUTHORIZED', message: expect.stringContaining('no longer allowed') as string },
  })
  const renewals = [{ group_id: group, term: 1, extend_by_ms: 9_000 }]
  expect(await ask('POST', '/v1/renew', { node_id: 'a', renewals })).toMatchObject({
    body: { results: [{ group_id: group, ok: false, error: 'UNAUTHORIZED' }] },
  })
  expect(await ask('GET', `/v1/groups/${group}/leader`)).toMatchObject({ body: { leader: { node_id: 'a', term: 1 } } })
  await ask('POST', `/v1/groups/${group}/resign`, { node_id: 'a', term: 1 })
  expect(await campaign(group, 'a')).toMatchObject({ status: 403 })
  expect(await campaign(group, 'b')).toMatchObject({ body: { is_leader: true, leader: { term: 2 } } })
})

test('pages of groups show every group once while other groups come and go', async () => {
  const own = Array.from({ length: 7 }, (_, index) => `page-${index}`)
  for (const group_id of own) await ask('POST', '/v1/groups', { group_id })
  const seen: string[] = []
  for (let next: unknown = 'page-'; typeof next === 'string';) {
    const { body } = await ask('GET', `/v1/groups?limit=2&after=${next}`)
    const page = (body['groups'] as { group_id: string }[]).map(({ group_id }) => group_id)
    expect(page.length).toBeLessThanOrEqual(2)
    seen.push(...page)
    next = body['next']
    // Add a group before the next page, and delete one of the last page.
    await ask('POST', '/v1/groups', { group_id: `page-0-${seen.length}` })
    await ask('DELETE', `/v1/groups/${String(page[0])}`)
  }
  expect(seen.filter((id) => own.includes(id))).toEqual(own)
})

test('a group with a leader is deleted only by force, and nobody else leads before its lease has expired', async () => {
  const group = newGroup()
  await campaign(group, 'a', { lease_ttl_ms: 2_000 })
  expect(await ask('DELETE', `/v1/groups/${group}`)).toMatchObject({ status: 409, body: { error: 'CONFLICT' } })
  expect(await ask('DELETE', `/v1/groups/${group}?force=yes`)).toMatchObject({ status: 400 })
  expect(await ask('DELETE', `/v1/groups/${group}?force=true`)).toMatchObject({ status: 200, body: { ok: true } })
  expect(await ask('GET', `/v1/groups/${group}`)).toMatchObject({ status: 404, body: { error: 'NOT_FOUND' } })
  expect(await campaign(group, 'b')).toMatchObject({ body: { is_leader: false, leader: null } })
  const won = await campaign(group, 'b', { wait_ms: 10_000 })
  expect(won).toMatchObject({ body: { is_leader: true, leader: { term: 2 } } })
})

describe('invalid requests', () => {
  test.each([
    ['invalid JSON', '{'],
    ['a list', '[]'],
    ['an empty body', ''],
    ['no node', { lease_ttl_ms: 5000 }],
    ['an empty node', { node_id: '', lease_ttl_ms: 5000 }],
    ['a node with a line break', { node_id: 'a\nb', lease_ttl_ms: 5000 }],
    ['a node that is not normalized', { node_id: 'e\u0301', lease_ttl_ms: 5000 }],
    ['a node of 300 bytes', { node_id: 'ü'.repeat(150), lease_ttl_ms: 5000 }],
    ['a duration as a string', { node_id: 'a', lease_ttl_ms: '5000' }],
    ['half a millisecond', { node_id: 'a', lease_ttl_ms: 0.5 }],
    ['an infinite duration', '{"node_id":"a","lease_ttl_ms":1e400}'],
    ['an unknown field', { node_id: 'a', lease_ttl_ms: 5000, admin: true }],
    ['__proto__', '{"node_id":"a","lease_ttl_ms":5000,"__proto__":{"admin":true}}'],
    ['metadata that is too long', { node_id: 'a', lease_ttl_ms: 5000, metadata: { text: 'x'.repeat(5_000) } }],
    [
      'metadata that is nested too deeply',
      { node_id: 'a', lease_ttl_ms: 5000, metadata: JSON.parse('{"a":'.repeat(9) + '1' + '}'.repeat(9)) as object },
    ],
  ])('a campaign with an invalid body is refused: %s', async (_what, body) => {
    const answer = await ask('POST', `/v1/groups/${newGroup()}/campaign`, body)
    expect(answer).toMatchObject({ status: 400, body: { ok: false, error: 'INVALID_REQUEST' } })
  })

  test.each(['..', '%2e%2e', 'a%2Fb', '%00', 'a%0Ab', '__proto__', '-', 'ä', 'x'.repeat(129)])(
    'the group id %s is refused',
    async (id) => {
      const { status } = await ask('GET', `/v1/groups/${id}/leader`)
      expect([400, 404]).toContain(status)
    },
  )

  test('a body that is too large is refused with 413', async () => {
    const answer = await ask('POST', `/v1/groups/${newGroup()}/campaign`, JSON.stringify({ a: 'x'.repeat(70_000) }))
    expect(answer).toMatchObject({ status: 413, body: { ok: false, error: 'TOO_LARGE' } })
  })
})

test('many leases are renewed in one request, each with its own result', async () => {
  const [mine, other, theirs] = [newGroup(), newGroup(), newGroup()]
  await campaign(mine, 'a')
  await campaign(other, 'a')
  await campaign(theirs, 'b')
  const item = (group_id: string, extend_by_ms = 5000) => ({ group_id, term: 1, extend_by_ms })
  const { status, body } = await ask('POST', '/v1/renew', {
    node_id: 'a',
    renewals: [item(mine), item(theirs), item('nobody'), item(other, 1), item(mine), item(mine, 4999)],
  })
  expect(status).toBe(200)
  expect(body['results']).toMatchObject([
    { group_id: mine, ok: true, term: 1 },
    { group_id: theirs, ok: false, error: 'NOT_LEADER', current_term: 1 },
    { group_id: 'nobody', ok: false, error: 'NOT_LEADER' },
    { group_id: other, ok: false, error: 'INVALID_TTL' },
    { group_id: mine, ok: true, term: 1 },
    { group_id: mine, ok: false, error: 'INVALID_REQUEST' },
  ])
})

test('the service serves its health, metrics, and OpenAPI document', async () => {
  expect(await ask('GET', '/healthz')).toMatchObject({ status: 200, body: { ok: true } })
  expect(await ask('GET', '/readyz')).toMatchObject({ status: 200, body: { ok: true } })
  const metrics = await (await fetch(`${service.url}/metrics`)).text()
  expect(metrics).toMatch(/^tenure_campaigns_total\{result="granted"\} \d+$/m)
  const { body } = await ask('GET', '/openapi.json')
  expect(Object.keys(body['paths'] as object)).toContain('/v1/groups/{group_id}/campaign')
})

// replication/cluster-replicas.test.ts covers several replicas.
test.skipIf(!isOneProcess())('a service on a directory reports itself as the only replica', async () => {
  const metrics = await (await fetch(`${service.url}/metrics`)).text()
  expect(metrics).toMatch(/^tenure_replica_active 1$/m)
  expect(metrics).toMatch(/^tenure_replicas_connected 0$/m)
  expect(metrics).toMatch(/^tenure_feed_lag_seconds 0$/m)
  expect(await ask('GET', '/v1/replicas')).toMatchObject({
    status: 200,
    body: {
      cluster_id: service.clusterId,
      answered_by: hostname(),
      storage: { kind: 'directory', healthy: true },
      active: hostname(),
      replicas: [{ replica: hostname(), role: 'active', address: null, changes_behind: 0, feed_lag_ms: 0 }],
    },
  })
})
