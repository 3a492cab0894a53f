import { Cluster, Redis } from 'ioredis'
import { Cluster as Cluster5, Redis as Redis5 } from 'ioredis-5'
import { createClient, type createCluster, createSentinel } from 'redis'
import { createClient as createClient4, type createCluster as createCluster4 } from 'redis-4'
import {
  createClient as createClient5,
  type createCluster as createCluster5,
  type createSentinel as createSentinel5,
} from 'redis-5'
import { describe, expect, expectTypeOf, test } from 'vitest'
import type { InspectableStore } from '../../../src/store-kit/diagnostics.ts'
import {
  redisStore,
  type IoredisClient,
  type NodeRedisStoreClient,
  type RedisClient,
} from '../../../src/stores/redis/index.ts'

// The type checker verifies this test.
test('redisStore accepts the clients, clusters and sentinels of every supported version', () => {
  expectTypeOf<Redis>().toExtend<IoredisClient>()
  expectTypeOf<Cluster>().toExtend<IoredisClient>()
  expectTypeOf<Redis5>().toExtend<IoredisClient>()
  expectTypeOf<Cluster5>().toExtend<IoredisClient>()
  expectTypeOf<ReturnType<typeof createClient>>().toExtend<NodeRedisStoreClient>()
  expectTypeOf<ReturnType<typeof createCluster>>().toExtend<NodeRedisStoreClient>()
  expectTypeOf<ReturnType<typeof createSentinel>>().toExtend<NodeRedisStoreClient>()
  expectTypeOf<ReturnType<typeof createClient5>>().toExtend<NodeRedisStoreClient>()
  expectTypeOf<ReturnType<typeof createCluster5>>().toExtend<NodeRedisStoreClient>()
  expectTypeOf<ReturnType<typeof createSentinel5>>().toExtend<NodeRedisStoreClient>()
  expectTypeOf<ReturnType<typeof createClient4>>().toExtend<NodeRedisStoreClient>()
  expectTypeOf<ReturnType<typeof createCluster4>>().toExtend<NodeRedisStoreClient>()
  expectTypeOf(redisStore({ connect: async () => createClient() })).toEqualTypeOf<InspectableStore>()
  expectTypeOf<InspectableStore['close']>().toEqualTypeOf<() => Promise<void>>()
})

describe('redisStore', () => {
  const lazy = { lazyConnect: true }
  const clients: Record<string, () => RedisClient> = {
    'ioredis 6': () => new Redis(lazy),
    'ioredis 5': () => new Redis5(lazy),
    'a cluster of ioredis 6': () => new Cluster([], lazy),
    'a cluster of ioredis 5': () => new Cluster5([], lazy),
    'redis 6': () => createClient(),
    'redis 5': () => createClient5(),
    'redis 4': () => createClient4(),
  }

  test.each(Object.entries(clients))('redisStore accepts a client of %s without connecting', (_, clientOf) => {
    expect(redisStore({ client: clientOf() })).toMatchObject({ expiry: 'observed', terms: true })
  })

  test.each<[string, object]>([
    ['client', {}],
    ['client', { client: { get: () => {} } }],
    ['client', { client: { eval: () => {} } }],
    ['connect', { connect: 'redis://localhost' }],
    ['connect', { client: createClient(), connect: () => createClient() }],
    ['prefix', { client: createClient(), prefix: '{app}' }],
    ['prefix', { client: createClient(), prefix: 7 }],
    ['waitForReplicas', { client: createClient(), waitForReplicas: -1 }],
    ['waitForReplicas', { client: createClient(), waitForReplicas: '1' }],
    ['waitForReplicas', { client: new Cluster([], lazy), waitForReplicas: 1 }],
    ['waitForReplicas', { client: createSentinel({ name: 'm', sentinelRootNodes: [] }), waitForReplicas: 1 }],
  ])('redisStore refuses an invalid "%s"', (option, options) => {
    expect(() => redisStore(options as never)).toThrow(new RegExp(`"${option}"`))
    expect(() => redisStore(options as never)).toThrow(expect.objectContaining({ code: 'INVALID_OPTION' }))
  })

  test.each<[string, unknown]>([
    ['a URL as options', 'redis://me:hunter2@127.0.0.1:6379/1'],
    ['a URL as client', { client: 'redis://me:hunter2@127.0.0.1:6379/1' }],
    ['a URL whose password is not encoded', { client: `redis://me:${'/?#@'.repeat(30)}hunter2@127.0.0.1/1` }],
    ['a URL as connect', { connect: 'redis://me:hunter2@127.0.0.1:6379/1' }],
    ['a URL as prefix', { client: createClient(), prefix: 'redis://me:hunter2@{host}' }],
  ])('redisStore refuses %s without showing its password', (_, options) => {
    const open = () => redisStore(options as never)
    expect(open).toThrow(expect.objectContaining({ code: 'INVALID_OPTION' }))
    expect(open).toThrow(/redis:\/\/\*\*\*@/)
    expect(open).not.toThrow(/hunter2/)
  })

  test('redisStore explains how to create a client from a URL', () => {
    const client = 'redis://me:hunter2@127.0.0.1' as never
    expect(() => redisStore({ client })).toThrow(/new Redis\(url\).*or openStore\(url\)/)
    expect(() => redisStore({})).toThrow(/"client".*"connect"/)
  })
})
