/** Tests of what the page needs from the service: its files, the changes, the caller's identity, and the search. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startService, type RunningService } from '../../src/index.ts'

const data = mkdtempSync(join(tmpdir(), 'tenure-page-'))
let service: RunningService
beforeAll(async () => {
  service = await startService({ data, port: 0 })
})
afterAll(async () => {
  await service.close()
  rmSync(data, { recursive: true })
})

const get = async (path: string, headers: Record<string, string> = {}) => fetch(`${service.url}${path}`, { headers })
const json = async (path: string): Promise<Record<string, unknown>> => (await (await get(path)).json()) as never
async function post(path: string, body: object): Promise<Record<string, unknown>> {
  const headers = { 'content-type': 'application/json' }
  const answer = await fetch(`${service.url}/v1/groups/${path}`, {
    method: 'POST',
    headers,
    body: JSON.stringify(body),
  })
  return (await answer.json()) as never
}
const campaign = (group: string, node_id: string, more = {}) =>
  post(`${group}/campaign`, { node_id, lease_ttl_ms: 60_000, ...more })

test('a browser gets the page at / with a content security policy that allows only scripts of the service', async () => {
  const page = await get('/', { accept: 'text/html' })
  expect(page.headers.get('content-type')).toBe('text/html; charset=utf-8')
  expect(page.headers.get('content-security-policy')).toContain("default-src 'none'; script-src 'self'")
  const [, script] = /src="(page\/[^"]+)"/.exec(await page.text()) ?? []
  const file = await get(`/${script}`, { 'accept-encoding': 'gzip' })
  expect(file.headers.get('content-encoding')).toBe('gzip')
  expect(file.headers.get('content-type')).toBe('text/javascript; charset=utf-8')
  const again = await get(`/${script}`, { 'if-none-match': file.headers.get('etag') ?? '' })
  expect(again.status).toBe(304)
  expect(page.headers.get('set-cookie')).toBeNull()
})

test('curl gets plain text at / with routes that all exist', async () => {
  const text = await (await get('/', { accept: '*/*' })).text()
  expect(text.split('\n').length).toBeLessThan(20)
  const { paths } = (await json('/openapi.json')) as { paths: Record<string, object> }
  const named = [...text.matchAll(/(?:(?:POST|GET) +| {2})(\/[\w.{}/]+)/g)].map(([, path]) => path ?? '')
  expect(named.length).toBeGreaterThan(10)
  for (const path of named) expect(Object.keys(paths), path).toContain(path.replace('{id}', '{group_id}'))
})

test('the last changes of the given groups are listed in order', async () => {
  await campaign('changes-a', 'one')
  await campaign('changes-b', 'other')
  await post('changes-a/resign', { node_id: 'one', term: 1 })
  await campaign('changes-a', 'two')
  const { changes } = await json('/v1/changes?groups=changes-a')
  expect(changes).toMatchObject([
    { type: 'LEADER_CHANGED', group_id: 'changes-a', term: 1, leader_node_id: 'one' },
    { type: 'LEADER_LOST', group_id: 'changes-a', term: 1, leader_node_id: 'one', reason: 'resigned' },
    { type: 'LEADER_CHANGED', group_id: 'changes-a', term: 2, leader_node_id: 'two' },
  ])
  expect(await json('/v1/changes?groups=changes-a&limit=1')).toMatchObject({ changes: [{ term: 2 }] })
  expect((await json('/v1/changes?groups=changes-b,changes-a'))['changes']).toHaveLength(4)
  expect(await json('/v1/changes?groups=nobody')).toEqual({ changes: [] })
})

test('a member names the attempt that holds its seat, so that the page can tell whether it still owns shards', async () => {
  await campaign('rooms', 'a')
  const metadata = { maxMembers: 4, metadata: {} }
  await campaign('rooms.member.0', 'a', { attempt: 'one', metadata })
  await campaign('rooms.member.1', 'b', { attempt: 'two', metadata })
  expect(await json('/v1/groups/rooms/members')).toMatchObject({
    members: [
      { node_id: 'a', seat: 0, instance_start_uuid: 'one', role: 'leader' },
      { node_id: 'b', seat: 1, instance_start_uuid: 'two', role: 'candidate' },
    ],
  })
})

test('/v1/identity shows that every caller has all rights when authentication is off', async () => {
  expect(await json('/v1/identity')).toEqual({ subject: 'anybody', admin: true, reader: true, expires_at_ms: null })
})

test('a search finds groups by any part of their id, in pages', async () => {
  for (const id of ['Find-eu-1', 'find-eu-2', 'other-find', 'unrelated']) await campaign(id, 'a')
  const ids = async (query: string) => {
    const { groups, next } = (await json(`/v1/groups?${query}`)) as { groups: { group_id: string }[]; next: string }
    return [groups.map(({ group_id }) => group_id), next]
  }
  expect(await ids('search=FIND')).toEqual([['Find-eu-1', 'find-eu-2', 'other-find'], null])
  expect(await ids('search=find&limit=2')).toEqual([['Find-eu-1', 'find-eu-2'], 'find-eu-2'])
  expect(await ids('search=find&limit=2&after=find-eu-2')).toEqual([['other-find'], null])
  expect(await ids('search=no-such')).toEqual([[], null])
  expect((await get('/v1/groups?search=')).status).toBe(400)
})

test('a listing counts the candidates, and a waiting campaign is a member at once', async () => {
  await campaign('line', 'leader')
  await campaign('line', 'loser')
  const patient = new AbortController()
  const waits = fetch(`${service.url}/v1/groups/line/campaign`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ node_id: 'patient', lease_ttl_ms: 60_000, wait_ms: 60_000 }),
    signal: patient.signal,
  }).catch(() => {})
  await expect.poll(() => json('/v1/groups/line')).toMatchObject({ group: { candidates: 2, waiting: 1 } })
  const { members } = (await json('/v1/groups/line/members')) as { members: { node_id: string }[] }
  expect(members.toSorted((one, other) => (one.node_id < other.node_id ? -1 : 1))).toMatchObject([
    { node_id: 'leader', role: 'leader', waiting: false },
    { node_id: 'loser', role: 'candidate', waiting: false },
    { node_id: 'patient', role: 'candidate', waiting: true },
  ])
  patient.abort()
  await waits
  await expect.poll(() => json('/v1/groups/line')).toMatchObject({ group: { candidates: 2, waiting: 0 } })
})
