import type { Cluster, Redis } from 'ioredis'
import { Pool, type PoolClient } from 'pg'
import { createClient, type createCluster } from 'redis'
import { expectTypeOf, test } from 'vitest'
import {
  postgresFence,
  redisFence,
  type IoredisClient,
  type NodeRedisClient,
  type PostgresConnection,
  type PostgresFence,
  type PostgresPool,
  type RedisFence,
} from '../../src/fencing/index.ts'

// The type checker verifies this test.
test('postgresFence accepts a pool of pg and passes its connections to the work with their own type', () => {
  expectTypeOf<PoolClient>().toExtend<PostgresConnection>()
  expectTypeOf<Pool>().toExtend<PostgresPool>()
  const fence = postgresFence({ pool: new Pool(), resource: 'report' })
  expectTypeOf(fence).toEqualTypeOf<PostgresFence<PoolClient>>()
})

test('redisFence accepts the clients of ioredis and redis, including clusters', () => {
  expectTypeOf<Redis>().toExtend<IoredisClient>()
  expectTypeOf<Cluster>().toExtend<IoredisClient>()
  expectTypeOf<ReturnType<typeof createClient>>().toExtend<NodeRedisClient>()
  expectTypeOf<ReturnType<typeof createCluster>>().toExtend<NodeRedisClient>()
  const client = createClient()
  expectTypeOf(redisFence({ client, resource: 'report' })).toEqualTypeOf<RedisFence>()
})
