import type { KV } from '@nats-io/kv'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { nats, natsClient, type NatsClient } from '../../../../../test/servers/nats.ts'
import { describeWith } from '../../../../../test/servers/suite.ts'
import { storeConformance } from '../../../../testing/src/conformance/index.ts'
import { keyOf } from '../../../src/stores/nats/keys.ts'
import { natsStore } from '../../../src/stores/nats/index.ts'

describeWith(nats, 'natsStore', (server) => {
  let client: NatsClient
  let kv: KV
  beforeAll(async () => {
    client = await natsClient(server().url)
    kv = await client.bucket('leases')
  })
  afterAll(() => client.close())

  const cases = storeConformance(
    () => ({
      store: natsStore({ kv }),
      open: () => natsStore({ kv }),
      remove: (election) => kv.delete(keyOf(election, 'record')),
    }),
    { leaseDurationMs: 1_000 },
  )
  for (const { name, run } of cases) test.concurrent(name, run)

  test('of 16 racing writers of one version, one wins', async () => {
    const revision = await kv.create('race', '')
    const writes = Array.from({ length: 16 }, (_, index) => kv.update('race', String(index), revision))
    const outcomes = await Promise.allSettled(writes)
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
  })
})
