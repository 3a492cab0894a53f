/**
 * Guards for resources that only the leader may change. Each guard remembers the highest term it accepted and refuses
 * lower ones, so that a late write of a former leader changes nothing.
 *
 * @module
 */
export { createFence, type Fence, type FenceOptions } from './fence.ts'
export { httpFence, termHeader, type FencedHandler, type HttpFenceOptions } from './http.ts'
export {
  postgresFence,
  type PostgresConnection,
  type PostgresFence,
  type PostgresFenceOptions,
  type PostgresPool,
} from './postgres.ts'
export {
  redisFence,
  type IoredisClient,
  type NodeRedisClient,
  type RedisArgument,
  type RedisFence,
  type RedisFenceOptions,
  type RedisWrite,
} from './redis.ts'
