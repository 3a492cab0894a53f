/** The oldest Redis that the store supports. It wraps the errors of commands in a script. */
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { programs } from '../../../../../test/servers/programs.ts'
import { redis } from '../../../../../test/servers/redis.ts'
import { describeWith } from '../../../../../test/servers/suite.ts'
import { storeConformance } from '../../../../testing/src/conformance/index.ts'
import { held } from '../../../../testing/src/conformance/scene.ts'
import type { LeaseRecord, Outcome } from '../../../src/engine/lease-store.ts'
import { redisStore } from '../../../src/stores/redis/index.ts'

const { signal } = new AbortController()
const call = { signal, timeoutMs: 10_000 }

function recordOf(outcome: Outcome): LeaseRecord {
  if (!outcome.ok) throw new Error(`the call was refused: ${JSON.stringify(outcome)}`)
  return outcome.record
}

function claimOf(election: string) {
  const claim = { holder: 'ada', attempt: 'first', leaseDurationMs: 15_000, afterTerm: 0, metadata: {} }
  return { election, ...claim }
}

describeWith({ ...redis, name: 'Redis 6', program: programs.redis6 }, 'redisStore on Redis 6', (server) => {
  let admin: Redis
  beforeAll(() => {
    admin = new Redis(server().url)
  })
  afterAll(() => admin.disconnect())

  /** The total number of connections so far. */
  const connections = async () => Number(/total_connections_received:(\d+)/.exec(await admin.info('stats'))?.[1])

  const clientOf = () => new Redis(server().url, { lazyConnect: true })

  describe('redisStore conforms on Redis 6', () => {
    const open = () => redisStore({ client: clientOf() })
    const remove = async (election: string) => {
      const key = `tenure:{${encodeURIComponent(election)}}:lease`
      await admin.del(key)
      await admin.publish(key, '')
    }
    const cases = storeConformance(() => ({ store: open(), open, remove }), { leaseDurationMs: 1_000 })
    for (const { name: promise, run } of cases) test.concurrent(promise, run)
  })

  test('the store reports errors from Redis 6 like those of newer versions', async () => {
    const store = redisStore({ client: clientOf() })
    onTestFinished(() => store.close?.())
    const record = recordOf(await store.acquire(claimOf('payments'), call))
    const renewal = () => store.renew(held(record), call)
    const unavailable = (text: string) => ({
      code: 'BACKEND_UNAVAILABLE',
      retryable: true,
      message: expect.stringContaining(text),
    })
    const foreign = { code: 'RECORD_INVALID', message: expect.stringContaining('belongs to another program') }
    await admin.rpush('tenure:{foreign}:lease', 'a job')
    await expect(store.read('foreign', call)).rejects.toMatchObject(foreign)

    await admin.config('SET', 'maxmemory', '1')
    await expect(renewal()).rejects.toMatchObject(unavailable('Redis has reached maxmemory'))
    expect(await store.read('payments', call)).toEqual(record)
    await admin.config('SET', 'maxmemory', '0')

    await admin.config('SET', 'min-replicas-to-write', '1')
    await expect(renewal()).rejects.toMatchObject(unavailable('it has too few replicas'))
    await admin.config('SET', 'min-replicas-to-write', '0')
    const renewed = recordOf(await renewal())

    const before = await connections()
    await admin.replicaof('127.0.0.1', 1)
    await expect(store.read('payments', call)).rejects.toMatchObject(unavailable('This Redis is a replica'))
    await admin.replicaof('NO', 'ONE')
    expect(await store.read('payments', call)).toEqual(renewed)
    // The store opens another connection, because Sentinel or a load balancer may lead it to the new primary.
    expect(await connections()).toBe(before + 1)
  })

  test('the store reports a permission that a command in its script lacks', async () => {
    await admin.call('ACL', 'SETUSER', 'few', 'on', '>secret', '~tenure:*', '&*', '+@all', '-mset')
    const store = redisStore({
      client: new Redis(server().url, { username: 'few', password: 'secret', lazyConnect: true }),
    })
    onTestFinished(() => store.close?.())
    await expect(store.acquire(claimOf('few'), call)).rejects.toMatchObject({
      code: 'UNAUTHORIZED',
      message: expect.stringContaining('lacks a permission'),
    })
  })
})
