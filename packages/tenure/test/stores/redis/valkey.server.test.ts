/** Valkey, which speaks the protocol of Redis. */
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { programs } from '../../../../../test/servers/programs.ts'
import { redis } from '../../../../../test/servers/redis.ts'
import { describeWith } from '../../../../../test/servers/suite.ts'
import { storeConformance } from '../../../../testing/src/conformance/index.ts'
import { redisStore } from '../../../src/stores/redis/index.ts'

const newCall = () => ({ signal: new AbortController().signal, timeoutMs: 10_000 })
const claim = { holder: 'ada', leaseDurationMs: 15_000, afterTerm: 0, metadata: {} }

describeWith({ ...redis, name: 'Valkey', program: programs.valkey }, 'redisStore on Valkey', (server) => {
  let admin: Redis
  beforeAll(() => {
    admin = new Redis(server().url)
  })
  afterAll(() => admin.disconnect())

  const open = () => redisStore({ client: new Redis(server().url, { lazyConnect: true }) })

  describe('redisStore conforms on Valkey', () => {
    const remove = async (election: string) => {
      const key = `tenure:{${encodeURIComponent(election)}}:lease`
      await admin.del(key)
      await admin.publish(key, '')
    }
    const cases = storeConformance(() => ({ store: open(), open, remove }), { leaseDurationMs: 1_000 })
    for (const { name: promise, run } of cases) test.concurrent(promise, run)
  })

  test('the server of this suite is Valkey, and one of 16 racing candidates wins on separate connections', async () => {
    expect(await admin.info('server')).toContain('valkey_version')
    const stores = Array.from({ length: 16 }, open)
    onTestFinished(async () => void (await Promise.all(stores.map(async (store) => store.close?.()))))
    await Promise.all(stores.map((store) => store.read('race', newCall())))
    const acquire = (store: (typeof stores)[number], index: number) =>
      store.acquire({ ...claim, election: 'race', attempt: `attempt-${index}` }, newCall())
    const outcomes = await Promise.all(stores.map(acquire))
    expect(outcomes.filter(({ ok }) => ok)).toHaveLength(1)
  })

  test('the store refuses a Valkey that evicts keys, and inspects its settings', async () => {
    const store = open()
    onTestFinished(() => store.close?.())
    expect(await store.inspect(newCall())).toEqual([])
    await admin.config('SET', 'maxmemory-policy', 'allkeys-lru')
    const refused = open()
    onTestFinished(() => refused.close?.())
    const answer = refused.acquire({ ...claim, election: 'evicted', attempt: 'first' }, newCall())
    await expect(answer).rejects.toMatchObject({ code: 'UNSAFE_SETTINGS' })
    await admin.config('SET', 'maxmemory-policy', 'noeviction')
  })
})
