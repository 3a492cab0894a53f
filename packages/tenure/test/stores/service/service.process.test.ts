import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { storeConformance } from '../../../../testing/src/conformance/index.ts'
import { Elector } from '../../../src/engine/elector.ts'
import { observe } from '../../../src/engine/observe.ts'
import { encodeName } from '../../../src/store-kit/encode-name.ts'
import { serviceStore } from '../../../src/stores/service/index.ts'
import type { RunningServer } from '../../../../../test/servers/server.ts'
import { serve } from '../../../../../test/service/serve.ts'

let service: RunningServer
beforeAll(async () => {
  service = await serve()
})
afterAll(() => service.stop())

describe('serviceStore on a real service', () => {
  const open = () => serviceStore({ url: service.url })
  const makeStore = () => ({ store: open(), open, remove: deleteGroup, keepsPromises: true, mostTermsAhead: 2 ** 32 })
  for (const { name, run } of storeConformance(makeStore)) test.concurrent(name, run)
})

test('a standby of the library is shown as live for as long as it waits', async () => {
  const store = serviceStore({ url: service.url })
  const call = { signal: new AbortController().signal, timeoutMs: 10_000 }
  const [leader, standby] = ['ada', 'bob'].map(
    (identity) => new Elector({ store: serviceStore({ url: service.url }), election: 'watched', identity }),
  ) as [Elector, Elector]
  const liveBob = async () => {
    const { members } = await store.request({ method: 'GET', path: '/v1/groups/watched/members' }, call)
    const bob = (members as { node_id: string; live: boolean; last_heartbeat_ms: number }[]).find(
      ({ node_id }) => node_id === 'bob',
    )
    return bob?.live ? bob.last_heartbeat_ms : undefined
  }
  leader.start()
  await leader.waitForLeadership()
  standby.start()
  const patience = { timeout: 20_000, interval: 200 }
  const seenMs = (await vi.waitUntil(liveBob, patience)) ?? 0
  // The standby no longer sends requests. Only its open watch shows that it is alive.
  await vi.waitUntil(async () => ((await liveBob()) ?? 0) > seenMs + 2_000, patience)
  await standby.stop()
  await leader.stop()
  await store.close?.()
}, 60_000)

test('request() sends other routes to the same addresses and returns their answers unchanged', async () => {
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

test("a claim far ahead of the service's terms is rejected, and the group can be led afterwards", async () => {
  const store = serviceStore({ url: service.url })
  const call = { signal: new AbortController().signal, timeoutMs: 10_000 }
  const claim = { election: 'far-ahead', holder: 'a', attempt: '1', leaseDurationMs: 10_000, metadata: {} }
  const far = store.acquire({ ...claim, afterTerm: Number.MAX_SAFE_INTEGER - 2 }, call)
  await expect(far).rejects.toMatchObject({
    code: 'INVALID_REQUEST',
    retryable: false,
    message: expect.stringContaining('highest term of group "far-ahead" is 0'),
  })
  expect(await store.acquire({ ...claim, afterTerm: 0 }, call)).toMatchObject({ ok: true, record: { term: 1 } })
  await store.close?.()
})

test('an outdated claim is refused with the released lease', async () => {
  const store = serviceStore({ url: service.url })
  const call = { signal: new AbortController().signal, timeoutMs: 10_000 }
  const claim = { election: 'given-back', holder: 'a', attempt: '1', leaseDurationMs: 10_000, metadata: {} }
  const won = await store.acquire({ ...claim, afterTerm: 0 }, call)
  if (!won.ok) throw new Error('The claim was not granted.')
  const { version } = won.record
  await store.release({ ...claim, term: 1, version }, call)
  const outcome = await store.acquire({ ...claim, attempt: '2', afterTerm: 0 }, call)
  expect(outcome).toMatchObject({ ok: false, highestTerm: 1, record: { term: 1, holder: 'a', released: true } })
  expect(outcome).not.toHaveProperty('retryAfterMs')
  await store.close?.()
})

/** Deletes a group that has a leader, which an administrator may do. */
async function deleteGroup(election: string): Promise<void> {
  const group = encodeName(election, /^[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}$/)
  const answer = await fetch(`${service.url}/v1/groups/${group}?force=true`, { method: 'DELETE' })
  if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`)
}

test('observe gets the reason why a term ended from the service', async () => {
  const store = serviceStore({ url: service.url })
  const call = { signal: new AbortController().signal, timeoutMs: 10_000 }
  const claim = { election: 'looked-on', holder: 'a', metadata: {} }
  // The term is first seen in the middle, so it ends before it was seen for its whole duration.
  await store.acquire({ ...claim, attempt: '1', leaseDurationMs: 1_000, afterTerm: 0 }, call)
  const changes: string[] = []
  for await (const { change, record, remainingMs } of observe(store, 'looked-on', { signal: call.signal })) {
    changes.push(`${change} ${record?.term}`)
    if (change === 'state') expect(remainingMs).toBeLessThanOrEqual(1_000)
    if (changes.at(-1) === 'expired 1') {
      const won = await store.acquire({ ...claim, attempt: '2', leaseDurationMs: 60_000, afterTerm: 1 }, call)
      if (won.ok) await store.release(won.record, call)
    }
    if (change === 'released') {
      await store.acquire({ ...claim, attempt: '3', leaseDurationMs: 60_000, afterTerm: 2 }, call)
      await deleteGroup('looked-on')
    }
    if (change === 'deleted') break
  }
  expect(changes).toEqual(['state 1', 'expired 1', 'elected 2', 'released 2', 'elected 3', 'deleted undefined'])
  await store.close?.()
})

test('list skips groups that never had a leader, and reports groups whose election is unknown', async () => {
  const store = serviceStore({ url: service.url })
  const call = { signal: new AbortController().signal, timeoutMs: 10_000 }
  await store.request({ method: 'POST', path: '/v1/groups', body: { group_id: 'listed-defined' } }, call)
  const claim = { holder: 'a', attempt: '1', leaseDurationMs: 60_000, afterTerm: 0, metadata: {} }
  for (const election of ['listed-led', 'listed oddly']) await store.acquire({ ...claim, election }, call)
  const records = []
  const problems = []
  for (let after: string | undefined; ;) {
    const page = await (store.list?.({ after, limit: 1_000 }, call) ?? expect.fail('The store cannot list.'))
    records.push(...page.records.map(({ election }) => election))
    problems.push(...(page.problems ?? []))
    after = page.next
    if (after === undefined) break
  }
  expect(records.filter((election) => election.startsWith('listed'))).toEqual(['listed-led'])
  expect(problems.join()).toContain(encodeName('listed oddly', /^$/))
  await store.close?.()
})
