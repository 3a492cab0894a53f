/** Tests that a watcher that resumes receives the metadata that still exists. */
import { expect, onTestFinished, test } from 'vitest'
import { ask } from '../auth/service.ts'
import { serve } from '../service-under-test.ts'

test('missed changes have the metadata of the newest term but not of earlier terms', async () => {
  const service = await serve()
  onTestFinished(() => service.close())
  const at = (path: string, body?: object) => ask(service.url, undefined, body ? 'POST' : 'GET', path, body)
  const group = '/v1/groups/jobs'
  const { body: begin } = await at(`${group}/watch`)
  const lead = (zone: string) => at(`${group}/campaign`, { node_id: 'a', lease_ttl_ms: 60_000, metadata: { zone } })
  await lead('old')
  await at(`${group}/resign`, { node_id: 'a', term: 1 })
  await lead('new')
  const { body } = await at(`${group}/watch?cursor=${String(begin['cursor'])}`)
  expect(body['events']).toMatchObject([
    { type: 'LEADER_CHANGED', term: 1, leader: { metadata: {} } },
    { type: 'LEADER_LOST', term: 1, previous_leader: { metadata: {} } },
    { type: 'LEADER_CHANGED', term: 2, leader: { metadata: { zone: 'new' } } },
  ])
})
