import { chmodSync, existsSync, mkdirSync, realpathSync, renameSync, rmSync, statSync } from 'node:fs'
import { basename, dirname, join, resolve, sep } from 'node:path'
import { secret } from '@tenure/internal/clock'
import { open } from 'lmdb'
import { checkOptions } from 'tenure/options'
import { fileNames } from './data-directory.ts'
import { prepareLockFile, sync } from './data-file.ts'
import { DirectoryLock } from './directory-lock.ts'
import { LmdbStorage } from './lmdb-storage.ts'

/** What {@link backupData} takes. */
export interface BackupOptions {
  /** The data directory, whether a service runs on it or not. */
  readonly data: string
  /** A directory that does not exist yet. Until the backup is complete, it is made in another one beside it. */
  readonly to: string
}

/** What {@link restoreData} takes. */
export interface RestoreOptions {
  /** A backup, or a data directory that was copied or put back. No service may run on it. */
  readonly data: string
}

/**
 * Copies the data of a service as they are at one moment, also while it runs and grants. The copy is checked, and a
 * service refuses it until {@link restoreData} was called on it, wherever it is moved or copied to.
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
    throw new Error(`${to} is in the data directory ${data}. Name a place outside of it for the backup.`)
  if (existsSync(to)) throw new Error(`${to} is there already. Name a new directory for the backup.`)
  const unfinished = `${to}.partial`
  // Of one that was killed.
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
 * Lets a service serve a backup, or data that were copied or put back: nobody knows which terms have been granted since,
 * so a million are skipped in every group. Every call skips that many again.
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
  // It says that there are data: a service that is started on half a backup misses them, instead of beginning again from nothing.
  const lock = await DirectoryLock.take(to)
  lock.note(1)
  lock.release()
  const partial = join(to, fileNames.partial)
  // While this is held no service starts here. If one runs, it has the lock, and LMDB writes over no page that is read.
  const idle = await DirectoryLock.tryTake(data)
  try {
    // LMDB would make it for the user that makes the backup.
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

/** Without links, also where the last parts of a path are not there yet. */
function realPathOf(path: string): string {
  return existsSync(path) ? realpathSync(path) : join(realPathOf(dirname(path)), basename(path))
}

function isWithin(path: string, directory: string): boolean {
  return path === directory || path.startsWith(join(directory, sep))
}

function newId(): string {
  return secret(16).toString('hex')
}

/** Throws where there is nothing, which opening it would begin. */
export function requireData(directory: string): void {
  if (statSync(join(directory, fileNames.data), { throwIfNoEntry: false })?.size) return
  throw new Error(`There are no data of a service in ${directory}.`)
}
