import type { Clock, LeaseStore } from 'tenure'
import { openStore, redactedUrl, type InspectableStore } from 'tenure/stores'
import { wrongOption } from '../errors.ts'
import { activeStore } from './active-store.ts'
import type { Storage } from './storage.ts'

/** What the replicas of a service share. */
export interface SharedStorage {
  readonly storage: Storage
  /** Where the active replica is elected: reports at least the head's term as the highest. */
  readonly leases: LeaseStore
  /** What should be changed about the server, for the log. */
  readonly warnings: readonly string[]
  close(): Promise<void>
}

/** What {@link openSharedStorage} takes. */
export interface SharedStorageOptions {
  newId(): string
  readonly clock: Clock
  /** Where credentials are looked for. Default: `process.env`. */
  readonly environment?: Readonly<Record<string, string | undefined>> | undefined
}

/** The storage, and the URL of the leases beside it. */
interface Opened {
  readonly storage: Storage
  readonly leasesUrl: string
}

type Opener = (url: string, options: Required<SharedStorageOptions>) => Promise<Opened | undefined>

const openers: Readonly<Record<string, Opener>> = { etcd: openEtcd, etcds: openEtcd }
const inspectMs = 5_000

/**
 * Opens what a URL names: `etcd://host:2379/prefix`, or `etcds:` with TLS, with all that the library reads in such a URL
 * and in the environment. Where there are no data yet, it begins them.
 */
export async function openSharedStorage(url: string, options: SharedStorageOptions): Promise<SharedStorage> {
  const { environment = process.env } = options
  const scheme = /^([a-z]+):/i.exec(url)?.[1]?.toLowerCase() ?? ''
  const open = Object.hasOwn(openers, scheme) ? openers[scheme] : undefined
  if (!open) throw refused(url)
  const opened = await open(url, { ...options, environment })
  // The library says what is wrong with it.
  if (!opened) throw await openStore(url, { environment }).then(() => refused(url))
  const { storage, leasesUrl } = opened
  try {
    const leases = await openStore(leasesUrl, { environment })
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

async function openEtcd(url: string, options: Required<SharedStorageOptions>): Promise<Opened | undefined> {
  const { openEtcdKeys } = await import('tenure/stores/etcd')
  const { EtcdStorage } = await import('./etcd-storage.ts')
  const keys = openEtcdKeys(url, options.environment ?? {}, options.clock)
  if (!keys) return undefined
  const storage = await EtcdStorage.open({ keys, newId: () => options.newId() })
  const server = /^\w+:\/\/[^/]*/.exec(url)?.[0] ?? ''
  // Beside the keys of the storage, of which none has a slash behind the colon.
  return { storage, leasesUrl: `${server}/${encodeURIComponent(`${keys.prefix}/service:leases`)}` }
}

async function findingsOf(store: LeaseStore | InspectableStore): Promise<string[]> {
  if (!('inspect' in store)) return []
  const { signal } = new AbortController()
  const findings = await store.inspect({ signal, timeoutMs: inspectMs }).catch(() => [])
  return findings.map(({ text }) => text)
}

function refused(url: string): TypeError {
  const rule =
    'it must be "etcd://host:2379/prefix" or "etcds://". A service on several machines keeps its data there: such a server loses nothing that it has confirmed'
  return wrongOption('store', ` ${redactedUrl(url)} is not possible: `, rule)
}
