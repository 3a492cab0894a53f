import { resolve } from 'node:path'
import type { Clock } from 'tenure'
import { checkOptions } from 'tenure/internal'
import { redactedUrl } from 'tenure/stores'
import { systemClock } from '../common/clock.ts'
import { skippedTerms } from './skipped-terms.ts'
import { activeStore } from './active-store.ts'
import { requireData } from './backup.ts'
import { DirectoryTarget } from './directory-target.ts'
import { LmdbStorage } from './lmdb-storage.ts'
import { moveStorage, type MoveSource, type MoveTarget } from './move-storage.ts'
import { openServer, type StorageEnvironment } from './open-storage.ts'
import { ServerStorage } from './server-storage.ts'
import { ServerTarget } from './server-target.ts'
import { SharedSource } from './shared-source.ts'

interface PlaceOptions {
  /** The source of credentials. Default: `process.env`. */
  readonly environment?: StorageEnvironment | undefined
  readonly clock?: Clock | undefined
}

/** The options of {@link restoreShared}. */
export interface RestoreSharedOptions extends PlaceOptions {
  /** The URL of the storage that replicas share. */
  readonly store: string
}

/**
 * The options of {@link migrateData}. Both `from` and `to` are either a data directory or the URL of a storage that
 * replicas share.
 */
export interface MigrateOptions extends PlaceOptions {
  /** The source. No service and no replica may be running on it. */
  readonly from: string
  /** The target. It must be empty. */
  readonly to: string
}

interface Closing {
  close(): Promise<unknown>
}

const newId = (): string => systemClock.randomId()

/**
 * Moves all data from one place to another: every term, definition, and checkpoint, and the cluster's id. The source is
 * marked first, and can no longer be served. If the move was interrupted, call this again. Resolves to the number of
 * groups moved, or to 0 if the move was already complete.
 *
 * @example
 * await migrateData({ from: '/var/lib/tenure', to: 'etcd://10.0.0.1:2379/tenure' })
 */
export async function migrateData(options: MigrateOptions): Promise<number> {
  checkOptions('migrateData()', options, { from: true, to: true, environment: true, clock: true })
  const { from, to } = options
  const target = await openTarget(to, options)
  try {
    const source = await openSource(from, target.name, options)
    try {
      return await moveStorage(source, target)
    } finally {
      await source.close()
    }
  } finally {
    await target.close()
  }
}

/**
 * Allows a service to continue after a backup of its server was restored. It is unknown which terms have been granted
 * since, so many terms are skipped, in every group and for the active replica, and nothing is granted for as long as
 * the longest lease may last. This fences a replica that is active. Each call skips that many more.
 *
 * @example
 * await restoreShared({ store: 'etcd://10.0.0.1:2379/tenure' })
 */
export async function restoreShared(options: RestoreSharedOptions): Promise<void> {
  checkOptions('restoreShared()', options, { store: true, environment: true, clock: true })
  const { store, clock = systemClock, environment = process.env } = options
  const { server } = await openServer(store, environment, clock)
  const storage = await ServerStorage.open({ server, newId, restoring: true })
  try {
    const head = await storage.head()
    const { incarnation } = await storage.history()
    const next = {
      ...head,
      term: head.term + skippedTerms,
      seq: head.seq + 1,
      batch: newId(),
      restores: head.restores + 1,
      incarnation,
      // The replica that takes over grants nothing for the duration of the longest lease that it knows.
      heldMs: Math.max(1, head.heldMs ?? 0),
    }
    const append = () => storage.append(head, { head: next, groups: [] })
    // If the first attempt got no answer, append the same batch again. That reveals the outcome without skipping more
    // terms.
    const appended = await append().catch(append)
    if (appended === 'fenced')
      throw new Error('A replica has written to the store in the meantime. Stop all replicas, and run this again.')
  } finally {
    await storage.close()
  }
}

async function openSource(from: string, movingTo: string, options: MigrateOptions): Promise<MoveSource & Closing> {
  const { clock = systemClock, environment = process.env } = options
  if (!isUrl(from)) {
    const directory = resolve(from)
    requireData(directory)
    return LmdbStorage.open({ directory, newId, movingTo, allowNetworkFilesystem: true })
  }
  const { server, openLeases } = await openServer(from, environment, clock)
  const storage = await ServerStorage.open({ server, newId, movingTo })
  const leases = activeStore(await openLeases(), storage)
  return new SharedSource({ storage, leases, clock, identity: `migration ${newId()}` })
}

async function openTarget(to: string, options: MigrateOptions): Promise<MoveTarget & Closing> {
  const { clock = systemClock, environment = process.env } = options
  if (!isUrl(to)) return new DirectoryTarget(resolve(to), `the directory ${resolve(to)}`)
  const { server } = await openServer(to, environment, clock)
  return new ServerTarget(server, redactedUrl(to))
}

function isUrl(place: string): boolean {
  return /^[a-z]+:\/\//i.test(place)
}
