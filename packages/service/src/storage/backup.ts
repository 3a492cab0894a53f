import { chmodSync, existsSync, mkdirSync, realpathSync, renameSync, rmSync, statSync } from 'node:fs'
import { basename, dirname, join, resolve, sep } from 'node:path'
import { secret } from '@tenure/internal/clock'
import { open } from 'lmdb'
import { checkOptions } from 'tenure/internal'
import { fileNames } from './data-directory.ts'
import { prepareLockFile, sync } from './data-file.ts'
import { DirectoryLock } from './directory-lock.ts'
import { LmdbStorage } from './lmdb-storage.ts'

/** The options of {@link backupData}. */
export interface BackupOptions {
  /** The data directory. A service may be running on it. */
  readonly data: string
  /** A directory that does not exist yet. An incomplete backup is written to a directory next to it. */
  readonly to: string
}

/** The options of {@link restoreData}. */
export interface RestoreOptions {
  /** A backup, or a data directory that was copied or restored. No service may be running on it. */
  readonly data: string
}

/**
 * Copies the data of a service as of one moment, even while the service runs and grants leases. The copy is verified. A
 * service refuses to use it until {@link restoreData} has been called on it, even if it is moved or copied.
 *
 * @example
 * await backupData({ data: '/var/lib/tenure', to: '/backup/tenure-monday' })
 */
export async function backupData(options: BackupOptions): Promise<void> {
  checkOptions('backupData()', options, { data: true, to: true })
  const data = resolve(options.data)
  const to = resolve(options.to)
  requireData(data)
  if (isWithin(realPathOf(to), realPathOf(data)))
    throw new Error(`${to} is inside the data directory ${data}. Choose a directory outside it for the backup.`)
  if (existsSync(to)) throw new Error(`${to} already exists. Choose a new directory for the backup.`)
  const unfinished = `${to}.partial`
  // Left over from a backup that was killed.
  rmSync(unfinished, { recursive: true, force: true })
  mkdirSync(unfinished, { recursive: true, mode: 0o700 })
  try {
    await copyInto(data, unfinished)
  } catch (error) {
    rmSync(unfinished, { recursive: true, force: true })
    throw error
  }
  renameSync(unfinished, to)
  sync(dirname(to), 'r')
}

/**
 * Allows a service to use a backup, or data that was copied or restored. It is unknown which terms have been granted
 * since, so a million terms are skipped in every group. Each call skips another million.
 *
 * @example
 * await restoreData({ data: '/var/lib/tenure' })
 */
export async function restoreData(options: RestoreOptions): Promise<void> {
  checkOptions('restoreData()', options, { data: true })
  const data = resolve(options.data)
  requireData(data)
  const storage = await LmdbStorage.open({ directory: data, newId, restored: 'yes', allowNetworkFilesystem: true })
  await storage.close()
}

async function copyInto(data: string, to: string): Promise<void> {
  // The lock file records that there is data. A service started on an incomplete backup then reports the data as
  // missing, instead of starting from nothing.
  const lock = await DirectoryLock.take(to)
  lock.note(1)
  lock.release()
  const partial = join(to, fileNames.partial)
  // While this lock is held, no service starts here. If a service is running, it has the lock, and LMDB does not
  // overwrite pages that are being read.
  const idle = await DirectoryLock.tryTake(data)
  try {
    // Otherwise LMDB would create the file as the user that makes the backup.
    if (idle) prepareLockFile(join(data, fileNames.readers))
    const source = open({ path: join(data, fileNames.data), readOnly: true, maxDbs: 4, overlappingSync: false })
    try {
      await source.backup(partial, false)
    } finally {
      await source.close()
    }
  } finally {
    idle?.release()
  }
  chmodSync(partial, 0o600)
  const storage = await LmdbStorage.open({
    directory: to,
    newId,
    restored: 'never',
    file: fileNames.partial,
    allowNetworkFilesystem: true,
  })
  await storage.close()
  sync(partial, 'r+')
  rmSync(`${partial}-lock`)
  renameSync(partial, join(to, fileNames.data))
  sync(to, 'r')
}

/** Returns the path without symbolic links, even if its last parts do not exist yet. */
function realPathOf(path: string): string {
  return existsSync(path) ? realpathSync(path) : join(realPathOf(dirname(path)), basename(path))
}

function isWithin(path: string, directory: string): boolean {
  return path === directory || path.startsWith(join(directory, sep))
}

function newId(): string {
  return secret(16).toString('hex')
}

/** Throws if the directory has no data. Opening it would create new data there. */
export function requireData(directory: string): void {
  if (statSync(join(directory, fileNames.data), { throwIfNoEntry: false })?.size) return
  throw new Error(`${directory} does not contain the data of a service.`)
}
