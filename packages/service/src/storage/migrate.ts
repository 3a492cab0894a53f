import { resolve } from 'node:path'
import type { Clock } from 'tenure'
import { checkOptions } from 'tenure/options'
import { redactedUrl } from 'tenure/stores'
import { systemClock } from '../clock.ts'
import { skippedTerms } from '../groups/group-table.ts'
import { activeStore } from './active-store.ts'
import { requireData } from './backup.ts'
import { DirectoryTarget } from './directory-target.ts'
import { LmdbStorage } from './lmdb-storage.ts'
import { moveStorage, type MoveSource, type MoveTarget } from './move-storage.ts'
import { openServer, type Environment } from './open-storage.ts'
import { ServerStorage } from './server-storage.ts'
import { ServerTarget } from './server-target.ts'
import { SharedSource } from './shared-source.ts'

interface PlaceOptions {
  /** Where credentials are looked for. Default: `process.env`. */
  readonly environment?: Environment | undefined
  readonly clock?: Clock | undefined
}

/** What {@link restoreShared} takes. */
export interface RestoreSharedOptions extends PlaceOptions {
  /** The URL of the storage that replicas share. */
  readonly store: string
}

/** What {@link migrateData} takes. A place is a data directory, or the URL of a storage that replicas share. */
export interface MigrateOptions extends PlaceOptions {
  /** No service may run on it, and no replica. */
  readonly from: string
  /** Nothing may be there. */
  readonly to: string
}

interface Closing {
  close(): Promise<unknown>
}

const newId = (): string => systemClock.randomId()

/**
 * Moves all data from one place to another: every term, definition and carry, and the name of the cluster. The source is
 * marked first, and is not served any more. Run it again if it did not end. Gives how many groups were moved, 0 if it was
 * done before.
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
 * Lets a service go on after a backup of its server was put back: nobody knows which terms have been granted since, so a
 * great many are skipped, in every group and for the active replica, and nothing is granted for as long as the longest
 * lease may last. A replica that is active is fenced by it. Every call skips that many again.
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
      // Whoever takes over holds for the longest lease that it knows of.
      heldMs: Math.max(1, head.heldMs ?? 0),
    }
    const append = () => storage.append(head, { head: next, groups: [] })
    // What became of a first try without an answer the second finds out, and skips nothing more.
    const appended = await append().catch(append)
    if (appended === 'fenced')
      throw new Error('A replica has written meanwhile. Stop all replicas, and run this again.')
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
