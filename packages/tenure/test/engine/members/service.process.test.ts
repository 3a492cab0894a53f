/** The presence of members on an election service. */
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { serve, type Served } from '../../../../service/test/service-under-test.ts'
import { Elector } from '../../../src/index.ts'
import { serviceStore } from '../../../src/stores/service/index.ts'
import { presenceSuite } from './store-suite.ts'

describe('presence on an election service', () => {
  let service: Served
  beforeAll(async () => {
    service = await serve()
  })
  afterAll(() => service.close())

  presenceSuite('an election service', () => serviceStore({ url: service.url }))

  test('GET members shows the seat, the generation and the eligibility of each candidate with a seat', async () => {
    const store = serviceStore({ url: service.url })
    const electors = ['a', 'b', 'c'].map((identity, index) => {
      const eligible = () => identity !== 'c'
      const more = { generation: 7 + index, metadata: { zone: 'az-a' } }
      return new Elector({ store, election: 'seated', identity, present: true, log: false, eligible, ...more })
    })
    onTestFinished(async () => {
      await Promise.all(electors.map((elector) => elector.stop()))
      await store.close?.()
    })
    for (const elector of electors) {
      elector.start()
      await expect.poll(() => elector.explain().seat, { timeout: 25_000 }).toBeTypeOf('number')
    }
    const shown = async () => {
      const answer = await fetch(`${service.url}/v1/groups/seated/members`)
      const { members } = (await answer.json()) as { members: { node_id: string }[] }
      return members.toSorted((one, other) => (one.node_id < other.node_id ? -1 : 1))
    }
    const seated = { last_heartbeat_ms: expect.any(Number), live: true, metadata: { zone: 'az-a' } }
    await expect.poll(shown, { timeout: 25_000 }).toMatchObject([
      { ...seated, node_id: 'a', role: 'leader', seat: 0, generation: 7, eligible: true },
      { ...seated, node_id: 'b', role: 'candidate', seat: 1, generation: 8, eligible: true },
      { ...seated, node_id: 'c', role: 'candidate', seat: 2, generation: 9, eligible: false },
    ])
  })
})
