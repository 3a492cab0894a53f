import { once } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { EventSource } from '../../../watch/event-source.ts'
import { newDirectory, post, serveProcess } from '../../../service-process.ts'

test(
  'over crashes a stream loses no leader: it is told of a gap, and then how things stand',
  { timeout: 120_000 },
  async () => {
    const directory = newDirectory()
    const port = await freePort()
    const campaign = (node_id: string) =>
      post(`http://127.0.0.1:${port}/v1/groups/g/campaign`, { node_id, lease_ttl_ms: 60_000 })
    let service = await serveProcess(directory, port)
    const source = new EventSource(`${service.url}/v1/groups/g/watch`)
    onTestFinished(() => source.close())
    await source.until((told) => told.length === 1)
    for (let term = 1; term <= 3; term++) {
      const before = source.told.length
      await campaign(`node-${term}`)
      await source.until((told) => told.at(-1)?.data['term'] === term)
      const { lastEventId, retryMs } = source.parser
      expect(retryMs).toBe(2000)
      await service.kill()
      service = await serveProcess(directory, port)
      // Nobody tells of what happens before it is back, and nothing of it may be lost.
      await post(`${service.url}/v1/groups/g/resign`, { node_id: `node-${term}`, term })
      await source.until((told) => told.length >= before + 3)
      const [change, gap, state] = source.told.slice(before)
      expect(change?.data).toMatchObject({ type: 'LEADER_CHANGED', term, leader_node_id: `node-${term}` })
      expect(gap).toMatchObject({ id: lastEventId, data: { type: 'GAP' } })
      expect(state?.data).toMatchObject({ type: 'STATE', highest_term: term })
      // It stood there as leader, or as the last one, and then the end of its term was told.
      if (state?.data['leader'] === null) expect(state.data['previous_leader']).toMatchObject({ term })
      else await source.until((told) => told.at(-1)?.data.type === 'LEADER_LOST')
      expect(source.told.at(-1)?.id.split('.')[0]).not.toBe(lastEventId.split('.')[0])
    }
  },
)

test('over a restart a long poll with an old cursor is told of the gap', { timeout: 60_000 }, async () => {
  const directory = newDirectory()
  const first = await serveProcess(directory)
  await post(`${first.url}/v1/groups/g/campaign`, { node_id: 'a', lease_ttl_ms: 60_000 })
  const { cursor } = await poll(`${first.url}/v1/groups/g/watch`)
  await first.kill()
  const second = await serveProcess(directory)
  const { events } = await poll(`${second.url}/v1/groups/g/watch?cursor=${cursor}`)
  expect(events).toMatchObject([{ type: 'GAP' }, { type: 'STATE', leader: { node_id: 'a', term: 1 } }])
})

async function poll(url: string): Promise<{ cursor: string; events: unknown }> {
  return (await (await fetch(url)).json()) as { cursor: string; events: unknown }
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  return port
}
