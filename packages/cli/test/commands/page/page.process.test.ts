/** Tests what `tenure page` answers to a browser, and which requests it refuses. */
import { once } from 'node:events'
import { request, type IncomingMessage } from 'node:http'
import { text } from 'node:stream/consumers'
import { pathToFileURL } from 'node:url'
import { Elector, type ElectorOptions } from 'tenure'
import { fileStore } from 'tenure/stores/file'
import { expect, onTestFinished, test, vi } from 'vitest'
import { temporaryFolder, tenure } from '../../tenure.ts'

async function scene() {
  const directory = temporaryFolder()
  const store = fileStore({ directory })
  const electors: Elector[] = []
  onTestFinished(async () => {
    await Promise.all(electors.map((elector) => elector.stop()))
    await store.close?.()
  })
  const { output } = tenure(['page', '--store', pathToFileURL(directory).href])
  const address = await vi.waitUntil(() => /^http:\S+$/m.exec(output.out)?.[0], { timeout: 20_000 })
  const { origin, hash } = new URL(address)
  const token = hash.replace('#token=', '')
  const get = (path: string, headers: Record<string, string> = {}) =>
    fetch(`${origin}${path}`, { headers: { authorization: `Bearer ${token}`, ...headers } })
  return {
    origin,
    token,
    get,
    json: async (path: string) => (await get(path)).json() as Promise<Record<string, unknown>>,
    lead: async (election: string, identity: string, options: Partial<ElectorOptions> = {}) => {
      const metadata = { zone: 'a' }
      const elector = new Elector({ store, election, identity, leaseDurationMs: 12_000, metadata, ...options })
      electors.push(elector)
      elector.start()
      await elector.waitForLeadership()
      return elector
    },
  }
}

test('tenure page lists, searches and shows the elections of a store, whatever their names', async () => {
  const { json, lead } = await scene()
  const names = ['alpha', 'beta, with <b>', 'übung/7']
  for (const name of names) await lead(name, `node of ${name}`)
  await expect
    .poll(async () => ((await json('/v1/groups')) as { groups: object[] }).groups, { timeout: 20_000, interval: 500 })
    .toHaveLength(3)
  expect(await json('/v1/groups?search=BETA')).toMatchObject({
    groups: [{ group_id: 'beta, with <b>', highest_term: 1, leader: { node_id: 'node of beta, with <b>', term: 1 } }],
    next: null,
  })
  const first = (await json('/v1/groups?limit=2')) as { groups: object[]; next: string }
  const rest = (await json(`/v1/groups?limit=2&after=${encodeURIComponent(first.next)}`)) as typeof first
  expect([first.groups.length, rest.groups.length, rest.next]).toEqual([2, 1, null])
  for (const name of names) {
    const path = `/v1/groups/${encodeURIComponent(name)}`
    expect(await json(path)).toMatchObject({ group: { leader: { term: 1, metadata: { zone: 'a' } } } })
    expect(await json(`${path}/members`)).toEqual({ members: null })
  }
  expect((await json('/v1/groups/none'))['error']).toBe('NOT_FOUND')
  expect(await json('/v1/identity')).toMatchObject({ admin: false, reader: true })
  expect(await json('/v1/replicas')).toMatchObject({ storage: { kind: 'file', healthy: true }, replicas: null })
})

test('tenure page lists the members of an election whose candidates are present', async () => {
  const { json, lead } = await scene()
  await lead('alpha', 'a', { present: true, generation: 3 })
  await expect
    .poll(async () => (await json('/v1/groups/alpha/members'))['members'], { timeout: 20_000, interval: 500 })
    .toMatchObject([
      { node_id: 'a', role: 'leader', live: true, seat: 0, generation: 3, eligible: true, metadata: { zone: 'a' } },
    ])
})

test('a stream of tenure page sends the state and the changes of an election, and the changes can be listed afterwards', async () => {
  const { get, json, lead } = await scene()
  const leader = await lead('one, two', 'a')
  const list = encodeURIComponent('one, two')
  const answer = await get(`/v1/watch?renewals=true&groups=${list}`)
  expect(answer.headers.get('content-type')).toContain('text/event-stream')
  const events: { type: string; reason?: string; leader?: { lease_remaining_ms: number } }[] = []
  const read = async () => {
    for await (const piece of answer.body ?? []) {
      for (const [, data] of Buffer.from(piece)
        .toString()
        .matchAll(/^data: (.*)$/gm))
        events.push(JSON.parse(data ?? ''))
    }
  }
  const reading = read().catch(() => {})
  const types = () => events.map(({ type }) => type)
  await expect.poll(types, { timeout: 20_000 }).toContain('RENEWED')
  expect(events[0]).toMatchObject({ type: 'STATE', group_id: 'one, two', leader: { node_id: 'a' } })
  expect(events[0]?.leader?.lease_remaining_ms).toBeLessThanOrEqual(12_000)
  await leader.stop()
  await expect.poll(types, { timeout: 20_000 }).toContain('LEADER_LOST')
  await lead('one, two', 'b')
  await expect.poll(types, { timeout: 20_000 }).toContain('LEADER_CHANGED')
  expect(await json(`/v1/changes?groups=${list}`)).toMatchObject({
    changes: [
      { type: 'LEADER_LOST', term: 1, leader_node_id: 'a', reason: 'resigned' },
      { type: 'LEADER_CHANGED', term: 2, leader_node_id: 'b' },
    ],
  })
  void reading
})

test('tenure page refuses requests without the secret, under another host name, or to other routes, and never writes', async () => {
  const { origin, token, get } = await scene()
  const page = await fetch(`${origin}/`, { headers: { accept: 'text/html' } })
  expect(page.headers.get('content-security-policy')).toContain("script-src 'self'")
  expect(await page.text()).not.toContain(token)
  for (const authorization of ['', 'Bearer x', `Bearer ${token}x`, token]) {
    for (const path of ['/v1/groups', '/v1/watch?groups=a', '/v1/changes?groups=a', '/v1/identity', '/metrics']) {
      expect((await get(path, { authorization })).status, path).toBe(401)
    }
  }
  // A web page whose name resolves to this machine (DNS rebinding) is not even served the page.
  for (const host of ['evil.example', 'localhost.evil.example', `evil.example:${new URL(origin).port}`]) {
    const sent = request(`${origin}/v1/groups`, { headers: { host, authorization: `Bearer ${token}` } }).end()
    const [response] = (await once(sent, 'response')) as [IncomingMessage]
    expect(response.statusCode).toBe(403)
    expect(await text(response)).toContain('UNAUTHORIZED')
  }
  for (const method of ['POST', 'DELETE', 'PUT']) {
    const answer = await fetch(`${origin}/v1/groups/a`, { method, headers: { authorization: `Bearer ${token}` } })
    expect(answer.status).toBe(405)
  }
  for (const path of ['/v1/watch', '/v1/watch?groups=', '/v1/watch?groups=%E0%A4%A', '/v1/groups/%E0%A4%A']) {
    expect((await get(path)).status, path).toBe(400)
  }
})

test('tenure page refuses addresses that are not loopback, and fails at once when the store is unavailable', async () => {
  const open = tenure(['page', '--store', 'memory:', '--listen', ':7080'])
  expect(await open.ended).toBe(2)
  expect(open.output.error).toContain('--listen must be a loopback address')
  const gone = tenure(['page', '--store', 'http://127.0.0.1:1'])
  expect(await gone.ended).toBe(69)
})
