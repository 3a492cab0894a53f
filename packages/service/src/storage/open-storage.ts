import type { Clock, LeaseStore } from 'tenure'
import { openStore, redactedUrl, type InspectableStore } from 'tenure/stores'
import { wrongOption } from '../common/errors.ts'
import { activeStore } from './active-store.ts'
import { ServerStorage, type StorageServer } from './server-storage.ts'
import type { Storage } from './storage.ts'

/** The storage and the election that the replicas of a service share. */
export interface SharedStorage {
  readonly storage: Storage
  /** The store in which the active replica is elected. It reports at least the head's term as the highest. */
  readonly leases: LeaseStore
  /** Warnings about the server's configuration, for the log. */
  readonly warnings: readonly string[]
  close(): Promise<void>
}

/** The options of {@link openSharedStorage}. */
export interface SharedStorageOptions {
  newId(): string
  readonly clock: Clock
  /** The source of credentials. Default: `process.env`. */
  readonly environment?: Readonly<Record<string, string | undefined>> | undefined
}

/** The server, and a function that opens the lease store on it, next to the data. */
interface OpenedServer {
  readonly server: StorageServer
  openLeases(): Promise<LeaseStore | InspectableStore>
}

/** Environment variables. */
export type StorageEnvironment = NonNullable<SharedStorageOptions['environment']>

type StorageOpener = (url: string, environment: StorageEnvironment, clock: Clock) => Promise<OpenedServer | undefined>

const openers: Readonly<Record<string, StorageOpener>> = {
  etcd: openEtcd,
  etcds: openEtcd,
  postgres: openPostgres,
  postgresql: openPostgres,
}
const inspectMs = 5_000

/**
 * Opens the storage that a URL names: `etcd://host:2379/prefix` (`etcds:` with TLS), or
 * `postgres://user@host/database?table=name`, with all options that the library supports in such a URL and in the
 * environment. Creates the data if there is none yet.
 */
export async function openSharedStorage(url: string, options: SharedStorageOptions): Promise<SharedStorage> {
  const { environment = process.env } = options
  const { server, openLeases } = await openServer(url, environment, options.clock)
  const storage = await ServerStorage.open({ server, newId: () => options.newId() })
  try {
    const leases = await openLeases()
    const warnings = await findingsOf(leases)
    return {
      storage,
      leases: activeStore(leases, storage),
      warnings,
      async close() {
        await leases.close?.()
        await storage.close()
      },
    }
  } catch (error) {
    await storage.close()
    throw error
  }
}

/** Returns the server that a URL names, without sending it anything. */
export async function openServer(url: string, environment: StorageEnvironment, clock: Clock): Promise<OpenedServer> {
  const scheme = /^([a-z]+):/i.exec(url)?.[1]?.toLowerCase() ?? ''
  const open = Object.hasOwn(openers, scheme) ? openers[scheme] : undefined
  const opened = await open?.(url, environment, clock)
  if (opened) return opened
  // The library reports what is wrong with such a URL.
  if (open) await openStore(url, { environment })
  throw refused(url)
}

async function openEtcd(url: string, environment: StorageEnvironment, clock: Clock): Promise<OpenedServer | undefined> {
  const { leasesOn } = await import('tenure/internal/etcd')
  const { openGrpcKeys } = await import('./etcd-grpc/open-keys.ts')
  const { EtcdStorageServer } = await import('./etcd-server.ts')
  const keys = openGrpcKeys(url, environment, clock)
  if (!keys) return undefined
  // The leases are stored next to the keys of the storage, none of which has a slash after the colon.
  const openLeases = async () => leasesOn(keys, `${keys.prefix}/service:leases`, clock)
  return { server: new EtcdStorageServer(keys), openLeases }
}

async function openPostgres(
  url: string,
  environment: StorageEnvironment,
  clock: Clock,
): Promise<OpenedServer | undefined> {
  const { openPostgresStatements } = await import('tenure/internal/postgres')
  const { PostgresStorageServer } = await import('./postgres-server.ts')
  if (!/^\w+:\/\//.test(url) || !URL.canParse(url)) return undefined
  const leasesUrl = new URL(url)
  const server = new PostgresStorageServer(await openPostgresStatements(new URL(url), environment, clock))
  leasesUrl.searchParams.set('table', server.leases)
  return { server, openLeases: () => openStore(leasesUrl.href, { environment }) }
}

async function findingsOf(store: LeaseStore | InspectableStore): Promise<string[]> {
  if (!('inspect' in store)) return []
  const { signal } = new AbortController()
  const findings = await store.inspect({ signal, timeoutMs: inspectMs }).catch(() => [])
  return findings.map(({ text }) => text)
}

function refused(url: string): TypeError {
  const rule =
    'it must be "etcd://host:2379/prefix", "etcds://" or "postgres://host/database". A service on several machines needs a server that loses nothing it has confirmed'
  return wrongOption('store', ` ${redactedUrl(url)} is not supported: `, rule)
}
