import { invalidOption } from '../../common/errors.ts'
import type { IoredisClient } from './ioredis-client.ts'
import { IoredisConnection } from './ioredis-link.ts'
import type { RedisConnection } from './link.ts'
import { NodeRedisConnection } from './node-redis-link.ts'

/** The result of `createClient`, `createCluster` or `createSentinel` of `redis` 4, 5 or 6. */
export interface NodeRedisStoreClient {
  eval(script: string, options: { keys: string[]; arguments: string[] }): Promise<unknown>
  evalSha(sha: string, options: { keys: string[]; arguments: string[] }): Promise<unknown>
}

/** A client of `redis`, or a `Redis` or `Cluster` of `ioredis` 5 or 6. */
export type RedisClient = IoredisClient | NodeRedisStoreClient

/** A client that can be duplicated with the same settings. */
interface Duplicable {
  duplicate(...overrides: object[]): RedisClient
  readonly options?: { readonly socket?: object; readonly sentinelCommandTimeout?: number }
}

/** Nothing else would end a query to a sentinel whose connection is half open. */
export const sentinelTimeoutMs = 2_000

const needed = ['eval', 'connect', 'subscribe', 'on']

/** Throws if the value is not a client. */
export function checkClient(client: unknown): asserts client is RedisClient {
  const isObject = typeof client === 'object' && client !== null
  if (isObject && needed.every((name) => typeof Reflect.get(client, name) === 'function')) return
  // A pool has no subscribe(), and it could send WAIT on a different connection than the write.
  const rule = 'it must be a client from "ioredis" or "redis", not a pool'
  if (typeof client === 'string') throw invalidOption('client', client, `${rule}: use new Redis(url) or openStore(url)`)
  throw invalidOption('client', client, client === undefined ? `${rule}, unless "connect" is set` : rule)
}

/** Throws if the client cannot be duplicated. */
export function checkDuplicable(client: RedisClient): asserts client is RedisClient & Duplicable {
  if (typeof Reflect.get(client, 'duplicate') === 'function') return
  throw invalidOption('client', client, 'it has no duplicate(): set "connect", a function that creates such a client')
}

/** A client for the store itself, with the settings of the caller's client. It is not connected yet. */
export function duplicateOf(client: RedisClient & Duplicable): RedisClient {
  // Commands must not be resent or sent late: a lost connection stays lost, together with everything queued on it.
  if (!isIoredis(client)) {
    const { options } = client
    // Clusters and sentinel clients do not expose their settings. The store closes them after the first abandoned call.
    if (mayChangeConnection(client) || options === undefined) return client.duplicate()
    return client.duplicate({
      socket: { ...options.socket, reconnectStrategy: false },
      disableOfflineQueue: true,
    })
  }
  const settings = {
    lazyConnect: true,
    enableOfflineQueue: false,
    enableAutoPipelining: false,
    autoResendUnfulfilledCommands: false,
    disconnectTimeout: 1,
  }
  if (isIoredisCluster(client)) return client.duplicate([], { ...settings, clusterRetryStrategy: never })
  return client.duplicate({
    ...settings,
    retryStrategy: never,
    sentinelRetryStrategy: never,
    sentinelCommandTimeout: client.options?.sentinelCommandTimeout ?? sentinelTimeoutMs,
    reconnectOnError: null,
  })
}

/** Wraps a client in the interface that the store uses. */
export function connectionOf(client: RedisClient): RedisConnection {
  return isIoredis(client) ? new IoredisConnection(client, isIoredisCluster(client)) : new NodeRedisConnection(client)
}

/** True if WAIT may use a different connection than the write that it waits for. */
export function mayChangeConnection(client: RedisClient): boolean {
  return isCluster(client) || 'getSentinelNode' in client
}

function isCluster(client: RedisClient): boolean {
  return isIoredis(client) ? isIoredisCluster(client) : 'nodeClient' in client
}

function isIoredis(client: RedisClient): client is IoredisClient {
  return 'defineCommand' in client
}

function isIoredisCluster(client: RedisClient): boolean {
  return Reflect.get(client, 'isCluster') === true
}

function never(): null {
  return null
}
