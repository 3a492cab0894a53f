import { environmentFile, environmentTls, type Environment } from '../../clients/http/environment.ts'
import { provide, provideTls, type Provided } from '../../clients/http/provided.ts'
import { systemClock } from '../../common/clock.ts'
import { isTenureError } from '../../common/errors.ts'
import type { InspectableStore } from '../../store-kit/diagnostics.ts'
import { loadDriver, missing } from '../../store-kit/load-package.ts'
import { destroySocketsOnFailure } from './attempt-sockets.ts'
import { checkKv, managerOf } from './client.ts'
import type { BucketAccess } from './open-buckets.ts'
import { storeOn } from './store-on.ts'

/** The required form of a URL. */
export const natsUrlRule =
  'it must be "nats://user:password@host:4222/bucket" ("natss://" for TLS), percent-encoded, optionally with several hosts ("host:port,host:port") and "?monitor=http://host:8222"'

/** Limits a connection attempt that no call waits for anymore. Other attempts end with the deadline of their call. */
const connectTimeoutMs = 5_000
/** Detects a dead connection between calls. A call that gets no answer replaces the connection sooner. */
const pingIntervalMs = 30_000

/** A parsed URL. */
interface NatsAddress {
  readonly servers: readonly string[]
  readonly isSecure: boolean
  readonly bucket: string
  readonly user: string | undefined
  readonly password: Provided | undefined
  readonly monitor: readonly string[] | undefined
}

/**
 * Opens the bucket that a URL names, using `@nats-io/transport-node` and `@nats-io/kv` from the user's project. Undefined
 * if the URL is invalid.
 */
export async function openNats(url: string, environment: Environment): Promise<InspectableStore | undefined> {
  const address = addressOf(url, environment)
  if (!address) return undefined
  const { bucket, servers, monitor } = address
  const packages = await loadPackages()
  const place = `the bucket "${bucket}" at ${servers.join(',')}`
  return storeOn(() => accessTo(address, packages, environment), { place, monitor, clock: systemClock })
}

function addressOf(url: string, environment: Environment): NatsAddress | undefined {
  const parts = /^nats(s?):\/\/(?:([^@/?#]*)@)?([^@/?#]+)\/([-\w]+)(?:\?([^#]*))?$/i.exec(url)
  if (!parts) return undefined
  const [, secure, login, hosts = '', bucket = '', query] = parts
  const { monitor, ...others } = Object.fromEntries(new URLSearchParams(query))
  const servers = hosts.split(',')
  const isHost = (host: string) => /^(\[[0-9a-f:.%]+\]|[^:[\]]+)(:\d{1,5})?$/i.test(host)
  if (Object.keys(others).length > 0 || !servers.every(isHost)) return undefined
  try {
    const [user, password] = (login?.split(/:(.*)/s, 2) ?? []).map(decodeURIComponent)
    const file = environmentFile(environment, 'TENURE_STORE_PASSWORD_FILE')
    const kept = environment['TENURE_STORE_PASSWORD'] || (file && (() => file().replace(/\r?\n$/, '')))
    return {
      servers,
      isSecure: secure !== '',
      bucket,
      user: user || environment['TENURE_STORE_USER'] || undefined,
      password: password || kept || undefined,
      monitor: monitor?.split(','),
    }
  } catch {
    // The URL has an incomplete percent-encoding.
    return undefined
  }
}

/** The part of a connection that is used. */
interface OwnConnection {
  close(): Promise<void>
  closed(): Promise<unknown>
}

/** The parts of `@nats-io/transport-node` and `@nats-io/kv` that are used. */
interface Packages {
  readonly transport: {
    connect(options: object): Promise<OwnConnection>
    credsAuthenticator(content: Uint8Array): unknown
  }
  readonly kv: { readonly Kvm: new (connection: OwnConnection) => { open(bucket: string): Promise<unknown> } }
}

async function loadPackages(): Promise<Packages> {
  try {
    return {
      transport: (await loadDriver('@nats-io/transport-node')) as Packages['transport'],
      kv: (await loadDriver('@nats-io/kv')) as Packages['kv'],
    }
  } catch (error) {
    // If a package is installed but cannot be loaded, the error is reported.
    if (!isTenureError(error) || !error.message.includes('needs the package')) throw error
    const both = 'the packages "@nats-io/transport-node" and "@nats-io/kv"'
    throw missing(both, '@nats-io/transport-node @nats-io/kv', error)
  }
}

/** Opens a connection. Secrets are read again for each connection, because they are rotated. */
async function accessTo(
  { servers, user, password, bucket, isSecure }: NatsAddress,
  { transport, kv: { Kvm } }: Packages,
  environment: Environment,
): Promise<BucketAccess> {
  const secret = await provide('password', password)
  const credentials = environmentFile(environment, 'NATS_CREDS')?.()
  const options = {
    servers: [...servers],
    ...loginOf(user, secret),
    ...(credentials && { authenticator: transport.credsAuthenticator(Buffer.from(credentials)) }),
    ...(isSecure && { tls: definedOf(await provideTls(environmentTls(environment))) }),
    name: 'tenure',
    timeout: connectTimeoutMs,
    pingInterval: pingIntervalMs,
    maxPingOut: 2,
    // A client that reconnects by itself would send the calls of a lost connection late.
    reconnect: false,
    noAsyncTraces: true,
  }
  const connection = await destroySocketsOnFailure(() => transport.connect(options))
  try {
    const kv = await new Kvm(connection).open(bucket)
    checkKv(kv)
    return { kv, manager: managerOf(kv, undefined), connection }
  } catch (error) {
    await connection.close()
    throw error
  }
}

/** A single value is a token, as in the URLs of NATS itself. */
function loginOf(user: string | undefined, password: string | undefined): object {
  if (user !== undefined && password === undefined) return { token: user }
  return definedOf({ user, pass: password })
}

/** Removes undefined values, because the client would treat them as set. */
function definedOf(settings: Readonly<Record<string, unknown>>): object {
  return Object.fromEntries(Object.entries(settings).filter(([, value]) => value !== undefined))
}
