import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { storeConformance } from '../../packages/tenure/src/conformance/index.ts'
import { encodeName } from '../../packages/tenure/src/stores/encode-name.ts'
import { serviceStore } from '../../packages/tenure/src/stores/service.ts'
import type { RunningServer } from '../servers/server.ts'
import { serve } from './serve.ts'

let service: RunningServer
beforeAll(async () => {
  service = await serve()
})
afterAll(() => service.stop())

describe('serviceStore on a real service', () => {
  const open = () => serviceStore({ url: service.url })
  const makeStore = () => ({ store: open(), open, remove: deleteGroup, keepsPromises: true })
  for (const { name, run } of storeConformance(makeStore)) test.concurrent(name, run)
})

test('other routes are asked with the same addresses, and answer as they are', async () => {
  const store = serviceStore({ url: service.url })
  const call = { signal: new AbortController().signal, timeoutMs: 10_000 }
  const path = '/v1/groups/asked-directly'
  const body = { node_id: 'a', lease_ttl_ms: 10_000 }
  const won = await store.request({ method: 'POST', path: `${path}/campaign`, body }, call)
  expect(won).toMatchObject({ is_leader: true, leader: { node_id: 'a', term: 1 } })
  expect(await store.request({ method: 'GET', path: `${path}/members` }, call)).toMatchObject({
    members: [{ node_id: 'a', role: 'leader' }],
  })
  const stranger = { node_id: 'b', term: 1 }
  expect(await store.request({ method: 'POST', path: `${path}/resign`, body: stranger }, call)).toMatchObject({
    ok: false,
    error: 'NOT_LEADER',
  })
  for (const put of [{}, { allowed_nodes: ['a'] }]) {
    expect(await store.request({ method: 'PUT', path: `${path}-defined`, body: put }, call)).toMatchObject({
      ok: true,
      group: { group_id: 'asked-directly-defined', explicit: true },
    })
  }
  const wrong = store.request({ method: 'POST', path: `${path}/campaign`, body: { node_id: 'b' } }, call)
  await expect(wrong).rejects.toMatchObject({ code: 'INVALID_REQUEST' })
  await store.close?.()
})

test('a claim that is outdated is refused with the lease that was given back', async () => {
  const store = serviceStore({ url: service.url })
  const call = { signal: new AbortController().signal, timeoutMs: 10_000 }
  const claim = { election: 'given-back', holder: 'a', attempt: '1', leaseDurationMs: 10_000, metadata: {} }
  const won = await store.acquire({ ...claim, afterTerm: 0 }, call)
  if (!won.ok) throw new Error('It was not granted.')
  const { version } = won.record
  await store.release({ ...claim, term: 1, version }, call)
  const outcome = await store.acquire({ ...claim, attempt: '2', afterTerm: 0 }, call)
  expect(outcome).toMatchObject({ ok: false, highestTerm: 1, record: { term: 1, holder: 'a', released: true } })
  expect(outcome).not.toHaveProperty('retryAfterMs')
  await store.close?.()
})

/** What an administrator may do to a group that has a leader. */
async function deleteGroup(election: string): Promise<void> {
  const group = encodeName(election, /^[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}$/)
  const answer = await fetch(`${service.url}/v1/groups/${group}?force=true`, { method: 'DELETE' })
  if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`)
}
