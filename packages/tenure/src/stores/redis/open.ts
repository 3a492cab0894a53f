import { isTenureError, TenureError } from '../../common/errors.ts'
import { environmentFile, environmentTls, type Environment } from '../../clients/http/environment.ts'
import { provide, provideTls, type Provided } from '../../clients/http/provided.ts'
import { loadDriver, missing } from '../../store-kit/load-package.ts'
import type { InspectableStore } from '../../store-kit/diagnostics.ts'
import { redisStore, type RedisStoreOptions } from './index.ts'
import { sentinelTimeoutMs, type RedisClient } from './client.ts'

/** The required form of a URL. */
export const redisUrlRule =
  'it must be "redis://user:password@host:6379/0" ("rediss://" for TLS), percent-encoded. Several hosts ("host:port,host:port") need "?sentinel=NAME" or "?cluster=true". Also allowed are "prefix", "waitForReplicas" and, for sentinels, "sentinelUser" and "sentinelPassword"'

interface Host {
  readonly host: string
  readonly port: number
}

interface Login {
  readonly user: string | undefined
  readonly password: Provided | undefined
}

/** A parsed URL. */
interface RedisAddress extends Login {
  readonly hosts: readonly Host[]
  readonly isSecure: boolean
  readonly database: number
  readonly sentinel: string | undefined
  /** The login for the sentinels, which have their own password or none. */
  readonly sentinelLogin: Login
  readonly isCluster: boolean
  readonly options: Pick<RedisStoreOptions, 'prefix' | 'waitForReplicas'>
}

/**
 * Opens the store that a URL names, using `ioredis` or `redis` from the user's project. Undefined if the URL is
 * invalid.
 */
export async function openRedis(url: string, environment: Environment): Promise<InspectableStore | undefined> {
  const address = addressOf(url, environment)
  if (!address) return undefined
  const make = await makerFor(address)
  const tls = address.isSecure ? environmentTls(environment) : undefined
  // Read again for each connection, because passwords and certificates are rotated.
  const connect = async () =>
    make({
      password: await provide('password', address.password),
      sentinelPassword: await provide('password', address.sentinelLogin.password),
      tls: tls && definedOf(await provideTls(tls)),
    })
  return redisStore({ connect, ...address.options })
}

function addressOf(url: string, environment: Environment): RedisAddress | undefined {
  const parts = /^redis(s?):\/\/(?:([^@/?#]*)@)?([^@/?#]+)(?:\/(\d*))?(?:\?([^#]*))?$/i.exec(url)
  if (!parts) return undefined
  const [, secure, login, names = '', database, query] = parts
  const { sentinel, sentinelUser, sentinelPassword, cluster, prefix, waitForReplicas, ...others } = Object.fromEntries(
    new URLSearchParams(query),
  )
  const hosts = names.split(',').map((name) => hostOf(name, sentinel === undefined ? 6_379 : 26_379))
  const isKnown = Object.keys(others).length === 0 && /^(true)?$/.test(cluster ?? '') && sentinel !== ''
  if (!isKnown || (sentinel !== undefined && cluster !== undefined) || !hosts.every((host) => host !== undefined)) {
    return undefined
  }
  const isCluster = cluster === 'true'
  if (hosts.length > 1 && !isCluster && sentinel === undefined) return undefined
  // A cluster has only database 0.
  if (isCluster && Number(database ?? 0) !== 0) return undefined
  if ((sentinelUser !== undefined || sentinelPassword !== undefined) && sentinel === undefined) return undefined
  try {
    const [user, password] = (login?.split(/:(.*)/s, 2) ?? []).map(decodeURIComponent)
    return {
      hosts,
      isSecure: secure !== '',
      ...loginOf({ user, password }, environment, 'TENURE_STORE'),
      sentinelLogin: loginOf({ user: sentinelUser, password: sentinelPassword }, environment, 'TENURE_SENTINEL'),
      database: Number(database ?? 0),
      sentinel,
      isCluster,
      options: {
        prefix,
        waitForReplicas: waitForReplicas === undefined ? undefined : Number(waitForReplicas),
      },
    }
  } catch {
    // The URL has an incomplete percent-encoding.
    return undefined
  }
}

/** Returns the login in the URL. Parts that the URL omits come from the environment. */
function loginOf(
  given: { user: string | undefined; password: string | undefined },
  environment: Environment,
  variable: string,
): Login {
  const file = environmentFile(environment, `${variable}_PASSWORD_FILE`)
  const kept = environment[`${variable}_PASSWORD`] || (file && (() => file().replace(/\r?\n$/, '')))
  return {
    user: given.user || environment[`${variable}_USER`] || undefined,
    password: given.password || kept || undefined,
  }
}

function hostOf(name: string, usualPort: number): Host | undefined {
  const [, bracketed, plain, port] = /^(?:\[([0-9a-f:.%]+)\]|([^:[\]]+))(?::(\d{1,5}))?$/i.exec(name) ?? []
  const host = bracketed ?? plain
  return host === undefined ? undefined : { host, port: Number(port ?? usualPort) }
}

/** Secrets that are read again for each connection. */
interface Secrets {
  readonly password: string | undefined
  readonly sentinelPassword: string | undefined
  readonly tls: object | undefined
}

type Maker = (secrets: Secrets) => RedisClient

/** Limits a connection attempt that no call waits for anymore. Other attempts end with the deadline of their call. */
const connectTimeout = 5_000

async function makerFor(address: RedisAddress): Promise<Maker> {
  const ioredis = await driver('ioredis')
  if (ioredis) return ioredisMaker(ioredis as IoredisPackage, address)
  const redis = await driver('redis')
  if (redis) return nodeRedisMaker(redis as NodeRedisPackage, address)
  throw missing('the package "ioredis" or "redis"', 'ioredis')
}

async function driver(name: string): Promise<object | undefined> {
  try {
    return await loadDriver(name)
  } catch (error) {
    // If a package is installed but cannot be loaded, the error is reported.
    if (isTenureError(error) && error.message.includes('needs the package')) return undefined
    throw error
  }
}

/** The part of the package `ioredis` that is used. */
interface IoredisPackage {
  readonly Redis: new (options: object) => RedisClient
  readonly Cluster: new (nodes: readonly Host[], options: object) => RedisClient
}

function ioredisMaker({ Redis, Cluster }: IoredisPackage, address: RedisAddress): Maker {
  const { hosts, user, database, sentinel, sentinelLogin, isCluster } = address
  const never = () => null
  const settings = {
    lazyConnect: true,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    disconnectTimeout: 1,
  }
  return ({ password, sentinelPassword, tls }) => {
    const login = definedOf({ username: user, password, tls, connectTimeout, connectionName: 'tenure' })
    if (isCluster) {
      return new Cluster(hosts, { ...settings, clusterRetryStrategy: never, redisOptions: login })
    }
    const one = { ...settings, ...login, retryStrategy: never, db: database }
    if (sentinel === undefined) return new Redis({ ...one, ...hosts[0] })
    const tlsOfSentinels = tls && { enableTLSForSentinelMode: true, sentinelTLS: tls }
    return new Redis({
      ...one,
      ...tlsOfSentinels,
      ...definedOf({ sentinelUsername: sentinelLogin.user, sentinelPassword }),
      sentinels: hosts,
      name: sentinel,
      sentinelRetryStrategy: never,
      sentinelCommandTimeout: sentinelTimeoutMs,
    })
  }
}

/** The part of the package `redis` that is used. Version 4 has no `createSentinel`. */
interface NodeRedisPackage {
  createClient(options: object): RedisClient
  createCluster(options: object): RedisClient
  createSentinel?(options: object): RedisClient
}

function nodeRedisMaker(redis: NodeRedisPackage, address: RedisAddress): Maker {
  const { hosts, user: username, database, sentinel, sentinelLogin, isCluster, isSecure } = address
  if (sentinel !== undefined && !redis.createSentinel) {
    const text = 'Sentinels need the package "ioredis", or "redis" 5 or newer: npm install ioredis'
    throw new TenureError('DRIVER_MISSING', text)
  }
  return ({ password, sentinelPassword, tls }) => {
    const security = { ...tls, ...(isSecure && { tls: true }), connectTimeout, reconnectStrategy: false as const }
    const login = definedOf({ username, password, name: 'tenure', disableOfflineQueue: true })
    if (isCluster) {
      const rootNodes = hosts.map((host) => ({ socket: { ...host, ...security } }))
      return redis.createCluster({ rootNodes, defaults: { ...login, socket: security } })
    }
    const one = { ...login, socket: { ...hosts[0], ...security }, database }
    if (sentinel === undefined || !redis.createSentinel) return redis.createClient(one)
    return redis.createSentinel({
      name: sentinel,
      sentinelRootNodes: hosts,
      nodeClientOptions: { ...login, database, socket: security },
      sentinelClientOptions: {
        ...definedOf({ username: sentinelLogin.user, password: sentinelPassword }),
        socket: security,
      },
    })
  }
}

/** Removes undefined values, because the clients would treat them as set. */
function definedOf(settings: Readonly<Record<string, unknown>>): object {
  return Object.fromEntries(Object.entries(settings).filter(([, value]) => value !== undefined))
}
