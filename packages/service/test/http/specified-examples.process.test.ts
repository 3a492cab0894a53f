import { expect, onTestFinished, test } from 'vitest'
import { newDirectory, serveProcess } from '../service-process.ts'
import { isOneProcess, serve } from '../service-under-test.ts'

/** The examples as they are in the specification of the HTTP API. */
const examples = {
  campaign: `{
  "node_id": "node_17",
  "lease_ttl_ms": 5000,
  "metadata": {
    "ip": "10.0.1.7",
    "zone": "az-a",
    "version": "1.4.2"
  }
}`,
  won: `{
  "is_leader": true,
  "leader": {
    "node_id": "node_17",
    "term": 42,
    "lease_expires_at_ms": 1735200000000
  }
}`,
  lost: `{
  "is_leader": false,
  "leader": {
    "node_id": "node_03",
    "term": 41,
    "lease_expires_at_ms": 1735200000123
  },
  "retry_after_ms": 800
}`,
  renew: `{
  "node_id": "node_17",
  "term": 42,
  "extend_by_ms": 5000
}`,
  renewed: `{
  "ok": true,
  "leader": {
    "node_id": "node_17",
    "term": 42,
    "lease_expires_at_ms": 1735200005000
  }
}`,
  notLeader: `{
  "ok": false,
  "error": "NOT_LEADER",
  "current_leader": { "node_id": "node_03", "term": 43 }
}`,
  resign: `{ "node_id": "node_17", "term": 42 }`,
  resigned: `{ "ok": true }`,
  leader: `{
  "leader": {
    "node_id": "node_03",
    "term": 43,
    "lease_expires_at_ms": 1735200008123,
    "metadata": { "zone": "az-b", "version": "1.4.2" }
  }
}`,
  event: `{
  "type": "LEADER_CHANGED",
  "group_id": "payments-coordinator",
  "term": 44,
  "leader_node_id": "node_09",
  "ts_ms": 1735200010000
}`,
  createGroup: `{
  "group_id": "payments-coordinator",
  "policy": { "min_ttl_ms": 2000, "max_ttl_ms": 15000 },
  "allowed_nodes": ["node_01", "node_02", "node_03"]
}`,
}

/** The fields with a time or a duration. */
const times = new Set(['lease_expires_at_ms', 'retry_after_ms', 'ts_ms'])

/** The response in the specification: every field with its name, and with its value unless that is a time. */
function like(example: string): Record<string, unknown> {
  return JSON.parse(example, (name, value: unknown) =>
    times.has(name) ? (expect.any(Number) as number) : value,
  ) as Record<string, unknown>
}

/** Sends the examples in the specification byte for byte to the built service. */
test('every example in the specification is accepted and answered as specified', { timeout: 60_000 }, async () => {
  const ask = asking(await startedUrl())
  const group = '/v1/groups/payments-coordinator'
  const created = await ask('POST', '/v1/groups', examples.createGroup)
  expect(created).toMatchObject({ status: 201, body: { ok: true, group: like(examples.createGroup) } })
  // The other examples use other nodes, so allow all nodes from here on.
  expect(await ask('PUT', group, '{"policy": { "min_ttl_ms": 2000, "max_ttl_ms": 15000 }}')).toMatchObject({
    body: { group: { allowed_nodes: null, policy: { min_ttl_ms: 2000, max_ttl_ms: 15000 } } },
  })

  const other = (more: object) => JSON.stringify({ node_id: 'node_03', lease_ttl_ms: 5000, ...more })
  await ask('POST', `${group}/campaign`, other({ after_term: 40 }))
  const lost = await ask('POST', `${group}/campaign`, examples.campaign)
  expect(lost).toMatchObject({ status: 200, body: like(examples.lost) })
  await ask('POST', `${group}/resign`, '{ "node_id": "node_03", "term": 41 }')
  const won = await ask('POST', `${group}/campaign`, examples.campaign)
  expect(won).toMatchObject({ status: 200, body: like(examples.won) })

  const renewed = await ask('POST', `${group}/renew`, examples.renew)
  expect(renewed).toMatchObject({ status: 200, body: like(examples.renewed) })
  const resigned = await ask('POST', `${group}/resign`, examples.resign)
  expect(resigned).toMatchObject({ status: 200, body: like(examples.resigned) })

  await ask('POST', `${group}/campaign`, other({ metadata: { zone: 'az-b', version: '1.4.2' } }))
  const refused = await ask('POST', `${group}/renew`, examples.renew)
  expect(refused).toMatchObject({ status: 409, body: like(examples.notLeader) })
  const leader = await ask('GET', `${group}/leader`)
  expect(leader).toMatchObject({ status: 200, body: like(examples.leader) })

  const { body: start } = await ask('GET', `${group}/watch`)
  await ask('POST', `${group}/resign`, '{ "node_id": "node_03", "term": 43 }')
  await ask('POST', `${group}/campaign`, other({ node_id: 'node_09' }))
  const { body: watched } = await ask('GET', `${group}/watch?cursor=${String(start['cursor'])}`)
  expect(watched['events']).toMatchObject([{ type: 'LEADER_LOST', term: 43 }, like(examples.event)])

  await ask('POST', `${group}/heartbeat`, '{ "node_id": "node_17" }')
  const { body: taking } = await ask('GET', `${group}/members`)
  const members = taking['members'] as Record<string, unknown>[]
  expect(members.find(({ node_id }) => node_id === 'node_09')).toMatchObject({
    role: 'leader',
    last_heartbeat_ms: expect.any(Number) as number,
  })
  expect(members.map(({ node_id }) => node_id)).toContain('node_17')
})

test('every error in the specification is returned with the specified code', { timeout: 60_000 }, async () => {
  const ask = asking(await startedUrl())
  await ask('POST', '/v1/groups', examples.createGroup)
  const post = (verb: string, body: object) =>
    ask('POST', `/v1/groups/payments-coordinator/${verb}`, JSON.stringify(body))
  const claim = { node_id: 'node_01', lease_ttl_ms: 5000 }
  expect(await post('campaign', claim)).toMatchObject({ status: 200 })
  const fails = (status: number, error: string) => ({ status, body: { ok: false, error } })
  expect(await post('renew', { node_id: 'node_01', term: 7, extend_by_ms: 5000 })).toMatchObject(
    fails(409, 'NOT_LEADER'),
  )
  expect(await post('campaign', { ...claim, node_id: 'node_02', strict: true })).toMatchObject(fails(409, 'CONFLICT'))
  expect(await post('campaign', { ...claim, lease_ttl_ms: 1999 })).toMatchObject(fails(400, 'INVALID_TTL'))
  expect(await post('campaign', { ...claim, node_id: 'node_09' })).toMatchObject(fails(403, 'UNAUTHORIZED'))
})

/** The built service, if it is a single process. */
async function startedUrl(): Promise<string> {
  if (isOneProcess()) return (await serveProcess(newDirectory())).url
  const service = await serve()
  onTestFinished(() => service.close())
  return service.url
}

function asking(url: string) {
  return async (method: string, path: string, body?: string) => {
    const headers = { 'content-type': 'application/json', connection: 'close' }
    const response = await fetch(url + path, { method, ...(body !== undefined && { headers, body }) })
    return { status: response.status, body: (await response.json()) as Record<string, unknown> }
  }
}
