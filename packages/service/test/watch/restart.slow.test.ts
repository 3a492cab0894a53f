import { expect, onTestFinished, test } from 'vitest'
import { freePort } from '../../../../test/servers/free-port.ts'
import { EventSource } from './event-source.ts'
import { newDirectory, post, serveProcess } from '../service-process.ts'

test('a stream receives every change once and without a gap across crashes', { timeout: 120_000 }, async () => {
  const directory = newDirectory()
  const port = await freePort()
  const campaign = (node_id: string) =>
    post(`http://127.0.0.1:${port}/v1/groups/g/campaign`, { node_id, lease_ttl_ms: 60_000 })
  let service = await serveProcess(directory, port)
  const source = new EventSource(`${service.url}/v1/groups/g/watch`)
  onTestFinished(() => source.close())
  await source.until((told) => told.length === 1)
  for (let term = 1; term <= 3; term++) {
    await campaign(`node-${term}`)
    await source.until((told) => told.at(-1)?.data['term'] === term)
    expect(source.parser.retryMs).toBe(2000)
    await service.kill()
    service = await serveProcess(directory, port)
    // This resignation happens before the watcher has reconnected.
    await post(`${service.url}/v1/groups/g/resign`, { node_id: `node-${term}`, term })
    await source.until((told) => told.at(-1)?.data.type === 'LEADER_LOST')
  }
  expect(source.told.map(({ data }) => [data.type, data['term']])).toEqual([
    ['STATE', undefined],
    ...[1, 2, 3].flatMap((term) => [
      ['LEADER_CHANGED', term],
      ['LEADER_LOST', term],
    ]),
  ])
})

test(
  'a cursor stays valid across a restart, and yields the state of only the groups with missed changes',
  { timeout: 60_000 },
  async () => {
    const directory = newDirectory()
    const first = await serveProcess(directory)
    const campaign = (group: string) =>
      post(`${first.url}/v1/groups/${group}/campaign`, { node_id: 'a', lease_ttl_ms: 60_000 })
    await campaign('known')
    const watched = '/v1/watch?groups=known,missed,never'
    const { cursor: early } = await poll(first.url + watched)
    await campaign('missed')
    const { cursor: late } = await poll(first.url + watched)
    await first.kill()
    const second = await serveProcess(directory)
    const resumed = (cursor: string) => poll(`${second.url}${watched}&wait_ms=0&cursor=${cursor}`)
    expect((await resumed(late)).events).toEqual([])
    const { events, cursor } = await resumed(early)
    expect(events).toMatchObject([{ type: 'GAP' }, { type: 'STATE', group_id: 'missed', leader: { term: 1 } }])
    expect((await resumed(cursor)).events).toEqual([])
    // A GAP event has no id, so a client that disconnects after it receives it again.
    const source = new EventSource(second.url + watched, { lastEventId: early })
    onTestFinished(() => source.close())
    await source.until((told) => told.length === 2)
    expect(source.told.map(({ data }) => data.type)).toEqual(['GAP', 'STATE'])
    expect(source.told[0]?.id).toBe(early)
    expect(source.told[1]?.id).not.toBe(early)
    await post(`${second.url}/v1/groups/known/resign`, { node_id: 'a', term: 1 })
    expect((await resumed(late)).events).toMatchObject([{ type: 'LEADER_LOST', group_id: 'known' }])
    const other = await serveProcess(newDirectory())
    expect((await fetch(`${other.url}${watched}&cursor=${late}`)).status).toBe(400)
  },
)

async function poll(url: string): Promise<{ cursor: string; events: unknown }> {
  return (await (await fetch(url)).json()) as { cursor: string; events: unknown }
}
