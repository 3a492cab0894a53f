import { invalidOption } from '../../errors.ts'
import type { IoredisClient } from './ioredis-client.ts'
import { IoredisLink } from './ioredis-link.ts'
import type { Link } from './link.ts'
import { NodeRedisLink } from './node-redis-link.ts'

/** What `createClient`, `createCluster` or `createSentinel` of `redis` 4, 5 or 6 gives. */
export interface NodeRedisStoreClient {
  eval(script: string, options: { keys: string[]; arguments: string[] }): Promise<unknown>
  evalSha(sha: string, options: { keys: string[]; arguments: string[] }): Promise<unknown>
}

/** A client of `redis`, or a `Redis` or `Cluster` of `ioredis` 5 or 6. */
export type RedisClient = IoredisClient | NodeRedisStoreClient

/** Anything that can be made again with the same settings. */
interface Duplicable {
  duplicate(...overrides: object[]): RedisClient
  readonly options?: { readonly socket?: object; readonly sentinelCommandTimeout?: number }
}

/** Nothing else ends a question to a sentinel whose connection is half open. */
export const sentinelTimeoutMs = 2_000

const needed = ['eval', 'connect', 'subscribe', 'on']

/** Refuses what is not a client. */
export function checkClient(client: unknown): asserts client is RedisClient {
  const isObject = typeof client === 'object' && client !== null
  if (isObject && needed.every((name) => typeof Reflect.get(client, name) === 'function')) return
  // A pool has no subscribe(), and could send WAIT over another connection than what it is to wait for.
  const rule = 'it must be a client of "ioredis" or "redis", and not a pool'
  if (typeof client === 'string') throw invalidOption('client', client, `${rule}: new Redis(url); or openStore(url)`)
  throw invalidOption('client', client, client === undefined ? `${rule}, or "connect" must make one` : rule)
}

/** Refuses a client that cannot be made a second time. */
export function checkDuplicable(client: RedisClient): asserts client is RedisClient & Duplicable {
  if (typeof Reflect.get(client, 'duplicate') === 'function') return
  throw invalidOption('client', client, 'it has no duplicate(): give "connect", a function that makes such a client')
}

/** A client of the store's own, with the settings of the caller's, not connected yet. */
export function duplicateOf(client: RedisClient & Duplicable): RedisClient {
  // Nothing is sent again, or sent once it is too late: a connection that is lost stays lost, with all that waits in it.
  if (!isIoredis(client)) {
    const { options } = client
    // A cluster, or what asks sentinels, hides its own; it is closed with the first call that is given up.
    if (isScattered(client) || options === undefined) return client.duplicate()
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

/** A client as the store uses it. */
export function linkOf(client: RedisClient): Link {
  return isIoredis(client) ? new IoredisLink(client, isIoredisCluster(client)) : new NodeRedisLink(client)
}

/** Whether WAIT may go over another connection than what it is to wait for. */
export function isScattered(client: RedisClient): boolean {
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
