import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs'
import { open, rename, rm, unlink, type FileHandle } from 'node:fs/promises'
import { dirname } from 'node:path'
import { errnoOf } from '@tenure/internal/errno'
import { makeDirectory } from '@tenure/internal/filesystem'
import { isTenureError, TenureError } from '../../common/errors.ts'
import { findOnLocalFilesystem } from '../../store-kit/local-filesystem.ts'
import { adviceForRights, checkDirectory, checkOpened, notAFile, checkOwner, type Access } from './access.ts'

/**
 * Creates the directory if it is missing. Refuses it if a kernel lock may not hold for all processes, or if another
 * user could change it.
 */
export async function prepareDirectory(
  directory: string,
  allowNetworkFilesystem: boolean,
  access: Access,
): Promise<void> {
  if (!(await findOnLocalFilesystem(directory, allowNetworkFilesystem))) {
    await makeDirectory(directory, access.directoryMode, syncName)
    await findOnLocalFilesystem(directory, allowNetworkFilesystem)
  }
  checkDirectory(directory, access)
  // A process that was killed or is slow may have created the directory without syncing it yet.
  await syncName(directory)
}

/** Makes the directory survive a power failure. Losing it would lose the terms granted there. */
async function syncName(directory: string): Promise<void> {
  await syncDirectory(dirname(directory)).catch((error: unknown) => {
    // A parent that this user may not read cannot be synced. A read-only or virtual parent needs no sync.
    if (!['EACCES', 'EPERM', 'EROFS', 'EINVAL'].includes(errnoOf(error) ?? '')) throw error
  })
}

// A link planted by another user must not decide what is read or written. Windows has no such flag.
const noFollow = constants.O_NOFOLLOW ?? 0
// Opening a pipe would otherwise block until its other end is opened.
const noWait = constants.O_NONBLOCK ?? 0

/**
 * Returns the file's text, or undefined if there is no such file. Reads synchronously, which for a few hundred bytes in
 * the kernel's cache is faster than a round trip through Node's thread pool. With `access`, refuses a file that another
 * user owns.
 */
export function readText(path: string, access: Access | undefined): string | undefined {
  let fd: number
  try {
    fd = openSync(path, constants.O_RDONLY | noFollow | noWait)
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return undefined
    throw error
  }
  try {
    const found = fstatSync(fd)
    // Accept a directory here. Reading it fails with a more specific error.
    if (!found.isFile() && !found.isDirectory()) throw notAFile(path)
    if (access) checkOwner(path, found, access)
    return readFileSync(fd, 'utf8')
  } finally {
    closeSync(fd)
  }
}

/** Opens a lock file, and creates it if it is missing. First checks that nobody has replaced the directory. */
export function openLockFile(path: string, access: Access): number {
  checkDirectory(dirname(path), access)
  const fd = openSync(path, constants.O_RDWR | constants.O_CREAT | noFollow | noWait, access.fileMode)
  try {
    checkOpened(fd, path, access)
    return fd
  } catch (error) {
    closeSync(fd)
    throw error
  }
}

/**
 * Replaces a file atomically: after a power failure it is the old file or the new one, never a part of it. The caller
 * must hold the lock. The temporary file has a fixed name, so the next writer replaces a file that a killed writer left
 * behind.
 */
export async function replaceFile(path: string, text: string, access: Access): Promise<void> {
  const temporary = `${path}.tmp`
  try {
    const file = await createFile(temporary, access.fileMode)
    try {
      checkOpened(file.fd, temporary, access)
      await file.writeFile(text)
      await file.sync()
    } finally {
      await file.close()
    }
    await rename(temporary, path)
  } catch (error) {
    await rm(temporary, { force: true }).catch(() => {})
    throw error
  }
}

/** Always create a new file, because an existing one may be a link to some other file. */
async function createFile(path: string, mode: number): Promise<FileHandle> {
  try {
    return await open(path, 'wx', mode)
  } catch (error) {
    if (errnoOf(error) !== 'EEXIST') throw error
    await unlink(path)
    return open(path, 'wx', mode)
  }
}

/** Waits until files replaced in a directory would survive a power failure. */
export async function syncDirectory(directory: string): Promise<void> {
  // Windows neither needs nor allows syncing a directory.
  if (process.platform === 'win32') return
  const handle = await open(directory, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

const advice: { readonly [errno: string]: string } = {
  ENOSPC: 'Free some space on this disk (for a watch: raise fs.inotify.max_user_watches)',
  EDQUOT: 'Free some space, or raise the quota',
  EROFS: 'The file system is mounted read-only: choose a writable directory',
  ENOENT: 'The directory does not exist: create or restore it, then restart',
  ENOTDIR: 'A part of the path is a file: choose another directory',
  ELOOP: 'It is a symbolic link, and links are not followed: remove it',
  EISDIR: 'There is a directory where the lease file should be: choose another path',
  EMFILE: 'This process has too many open files: raise its limit',
  ENFILE: 'This machine has too many open files: raise its limit',
  EIO: 'The disk reported an I/O error: check the disk',
}

/** Converts system errors to store errors, with the path and what to do. Returns all other errors unchanged. */
export function asStoreError(error: unknown, directory: string, access: Access): unknown {
  const errno = errnoOf(error)
  if (!errno || isTenureError(error)) return error
  const path = (error as NodeJS.ErrnoException).path ?? directory
  const toDo = errno === 'EACCES' || errno === 'EPERM' ? adviceForRights(access) : (advice[errno] ?? 'See the cause')
  return new TenureError(
    'BACKEND_UNAVAILABLE',
    `The file store cannot use "${path}": ${(error as Error).message}. ` +
      `${toDo}. Until this is fixed, the store grants and renews nothing.`,
    { retryable: true, cause: error },
  )
}
