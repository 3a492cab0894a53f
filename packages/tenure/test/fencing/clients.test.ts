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

// The type checker is what judges here.
test('a pool of pg fits, and the work is given its connections with their own type', () => {
  expectTypeOf<PoolClient>().toExtend<PostgresConnection>()
  expectTypeOf<Pool>().toExtend<PostgresPool>()
  const fence = postgresFence({ pool: new Pool(), resource: 'report' })
  expectTypeOf(fence).toEqualTypeOf<PostgresFence<PoolClient>>()
})

test('the clients of ioredis and redis fit, clusters too', () => {
  expectTypeOf<Redis>().toExtend<IoredisClient>()
  expectTypeOf<Cluster>().toExtend<IoredisClient>()
  expectTypeOf<ReturnType<typeof createClient>>().toExtend<NodeRedisClient>()
  expectTypeOf<ReturnType<typeof createCluster>>().toExtend<NodeRedisClient>()
  const client = createClient()
  expectTypeOf(redisFence({ client, resource: 'report' })).toEqualTypeOf<RedisFence>()
})
