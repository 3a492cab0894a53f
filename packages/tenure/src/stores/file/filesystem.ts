import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs'
import { open, rename, rm, unlink, type FileHandle } from 'node:fs/promises'
import { dirname } from 'node:path'
import { errnoOf } from '@tenure/internal/errno'
import { filesystemType, makeDirectory, refusalOf } from '@tenure/internal/filesystem'
import { isTenureError, TenureError } from '../../errors.ts'
import { adviceForRights, checkDirectory, checkOpened, notAFile, refuseForeign, type Access } from './access.ts'

/**
 * Creates the directory if it is missing, and refuses it where a kernel lock may not hold for everybody, or where
 * another user could change it.
 */
export async function prepareDirectory(
  directory: string,
  allowNetworkFilesystem: boolean,
  access: Access,
): Promise<void> {
  if (!(await findDirectory(directory, allowNetworkFilesystem))) {
    await makeDirectory(directory, access.directoryMode, syncName)
    await findDirectory(directory, allowNetworkFilesystem)
  }
  checkDirectory(directory, access)
  // A process that was killed, or is slow, may have made it and not synced it yet.
  await syncName(directory)
}

/** Whether the directory is there. Refuses it likewise. */
export async function findDirectory(directory: string, allowNetworkFilesystem: boolean): Promise<boolean> {
  const type = await filesystemType(directory)
  if (type === undefined) return false
  const refusal = allowNetworkFilesystem ? undefined : refusalOf(directory, type)
  if (refusal === undefined) return true
  const { text, advice } = refusal
  throw new TenureError('UNSUPPORTED_FILESYSTEM', text, { option: 'allowNetworkFilesystem', advice })
}

/** A power cut must not take the directory away, and with it the terms that were granted there. */
async function syncName(directory: string): Promise<void> {
  await syncDirectory(dirname(directory)).catch((error: unknown) => {
    // Without the right to read the parent there is no way to sync it; a read-only or virtual one has nothing to sync.
    if (!['EACCES', 'EPERM', 'EROFS', 'EINVAL'].includes(errnoOf(error) ?? '')) throw error
  })
}

// A link that another user planted must not decide what is read or written. Windows has no such flag.
const noFollow = constants.O_NOFOLLOW ?? 0
// Opening a pipe would wait for its other end.
const noWait = constants.O_NONBLOCK ?? 0

/**
 * The file's text, or undefined if there is no such file. Read at once: a few hundred bytes that the kernel has in its
 * cache cost less than the way through Node's thread pool and back. With `access`, a file of another user is refused.
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
    // Reading a directory fails in words of its own.
    if (!found.isFile() && !found.isDirectory()) throw notAFile(path)
    if (access) refuseForeign(path, found, access)
    return readFileSync(fd, 'utf8')
  } finally {
    closeSync(fd)
  }
}

/** Opens the file of a lock, and makes it if it is missing: in a directory that nobody has replaced meanwhile. */
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
 * Replaces a file in one step; after a power cut it is the old or the new one, never a part. The caller holds the lock:
 * the temporary file has one name, so that the next writer takes over what a killed one left.
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

/** Always a new one: whatever has its name may be a link to a file that nobody meant. */
async function createFile(path: string, mode: number): Promise<FileHandle> {
  try {
    return await open(path, 'wx', mode)
  } catch (error) {
    if (errnoOf(error) !== 'EEXIST') throw error
    await unlink(path)
    return open(path, 'wx', mode)
  }
}

/** Waits until the files that were replaced in a directory would survive a power cut. */
export async function syncDirectory(directory: string): Promise<void> {
  // Windows neither needs nor allows it.
  if (process.platform === 'win32') return
  const handle = await open(directory, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

const advice: { readonly [errno: string]: string } = {
  ENOSPC: 'Free some space on that disk (for a watch: raise fs.inotify.max_user_watches)',
  EDQUOT: 'Free some space, or raise the quota',
  EROFS: 'The file system is mounted read-only: choose a directory that can be written to',
  ENOENT: 'The directory is not there: make or restore it, then start again',
  ENOTDIR: 'A part of the path is a file: choose another directory',
  ELOOP: 'A symbolic link is in its place, and links are not followed: remove it',
  EISDIR: 'There is a directory where the lease file should be: choose another path',
  EMFILE: 'This process has too many open files: raise its limit',
  ENFILE: 'This machine has too many open files: raise its limit',
  EIO: 'The disk reported an error: check it',
}

/** System errors become ours, with the path and what to do; everything else stays as it is. */
export function asStoreError(error: unknown, directory: string, access: Access): unknown {
  const errno = errnoOf(error)
  if (!errno || isTenureError(error)) return error
  const path = (error as NodeJS.ErrnoException).path ?? directory
  const toDo = errno === 'EACCES' || errno === 'EPERM' ? adviceForRights(access) : (advice[errno] ?? 'See the cause')
  return new TenureError(
    'BACKEND_UNAVAILABLE',
    `The file store cannot use "${path}": ${(error as Error).message}. ` +
      `${toDo}. Until then this store grants and renews nothing.`,
    { retryable: true, cause: error },
  )
}
