import { readFileSync } from 'node:fs'
import { mkdir, open, rename, rm, statfs } from 'node:fs/promises'
import { dirname } from 'node:path'
import { isTenureError, TenureError } from '../../errors.ts'

// Magic numbers of statfs(2) for file systems whose locks may be local to one host, or kept by a program.
const sharedFilesystems = new Map([
  [0x6969, 'NFS'],
  [0x517b, 'SMB'],
  [0xff534d42, 'CIFS'],
  [0xfe534d42, 'SMB2'],
  [0x65735546, 'FUSE'],
  [0x01021997, '9p'],
  [0x5346414f, 'AFS'],
  [0x6b414653, 'AFS'],
  [0x00c36400, 'Ceph'],
  [0x73757245, 'Coda'],
  [0x564c, 'NCP'],
  [0x7461636f, 'OCFS2'],
  [0x01161970, 'GFS2'],
  [0x0bd00bd0, 'Lustre'],
  [0x47504653, 'GPFS'],
  [0x19830326, 'BeeGFS'],
  [0xaad7aaea, 'PanFS'],
  [0x786f4256, 'VirtualBox shared folder'],
  [0xbacbacbc, 'VMware shared folder'],
])

/** The name of a file system that hosts may share, by its statfs(2) type; undefined for a local one. */
export function sharedFilesystem(type: number): string | undefined {
  return sharedFilesystems.get(type >>> 0)
}

/** Creates the directory if it is missing, and refuses it where a kernel lock may not hold for everybody. */
export async function prepareDirectory(directory: string, allowNetworkFilesystem: boolean): Promise<void> {
  if (await findDirectory(directory, allowNetworkFilesystem)) return
  await makeDirectory(directory)
  await findDirectory(directory, allowNetworkFilesystem)
}

/** Whether the directory is there. Refuses it likewise. */
export async function findDirectory(directory: string, allowNetworkFilesystem: boolean): Promise<boolean> {
  const type = await filesystemType(directory)
  if (type === undefined) return false
  const name = sharedFilesystem(type)
  if (!name || allowNetworkFilesystem) return true
  throw new TenureError(
    'UNSUPPORTED_FILESYSTEM',
    `"${directory}" is on ${name}. Locks there may be local to one host, so two hosts could both lead. ` +
      'Use a local directory, or another store for elections between machines; if locks and renames of this ' +
      'file system are known to hold for all hosts, set allowNetworkFilesystem.',
  )
}

/** Node's own way to make parents too never ends where a parent is there and takes no children, as in /proc. */
async function makeDirectory(directory: string): Promise<void> {
  if ((await filesystemType(directory)) !== undefined) return
  await makeDirectory(dirname(directory))
  await mkdir(directory).catch((error: unknown) => {
    // Somebody else may have made it meanwhile.
    if (errnoOf(error) !== 'EEXIST') throw error
  })
}

async function filesystemType(directory: string): Promise<number | undefined> {
  try {
    const { type } = await statfs(directory)
    // Elsewhere the number means something else.
    return process.platform === 'linux' ? type : 0
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return undefined
    throw error
  }
}

/**
 * The file's text, or undefined if there is no such file. Read at once: a few hundred bytes that the kernel has in its
 * cache cost less than the way through Node's thread pool and back.
 */
export function readText(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return undefined
    throw error
  }
}

/**
 * Replaces a file in one step; after a power cut it is the old or the new one, never a part. The caller holds the lock:
 * the temporary file has one name, so that the next writer takes over what a killed one left.
 */
export async function replaceFile(path: string, text: string): Promise<void> {
  const temporary = `${path}.tmp`
  try {
    const file = await open(temporary, 'w')
    try {
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

/** The code of a system error, such as ENOSPC; undefined for any other error. */
export function errnoOf(error: unknown): string | undefined {
  if (!(error instanceof Error) || !('code' in error) || !('syscall' in error)) return undefined
  return typeof error.code === 'string' ? error.code : undefined
}

const advice: { readonly [errno: string]: string } = {
  ENOSPC: 'Free some space on that disk (for a watch: raise fs.inotify.max_user_watches)',
  EDQUOT: 'Free some space, or raise the quota',
  EROFS: 'The file system is mounted read-only: choose a directory that can be written to',
  EACCES: 'Allow this user to read and write the directory and the files in it',
  EPERM: 'Allow this user to read and write the directory and the files in it',
  ENOENT: 'The directory is not there: make or restore it, then start again',
  ENOTDIR: 'A part of the path is a file: choose another directory',
  EISDIR: 'A directory stands where the lease file should be: choose another path',
  EMFILE: 'This process has too many open files: raise its limit',
  ENFILE: 'This machine has too many open files: raise its limit',
  EIO: 'The disk reported an error: check it',
}

/** System errors become ours, with the path and what to do; everything else stays as it is. */
export function asStoreError(error: unknown, directory: string): unknown {
  const errno = errnoOf(error)
  if (!errno || isTenureError(error)) return error
  const path = (error as NodeJS.ErrnoException).path ?? directory
  return new TenureError(
    'BACKEND_UNAVAILABLE',
    `The file store cannot use "${path}": ${(error as Error).message}. ` +
      `${advice[errno] ?? 'See the cause'}. Until then this store grants and renews nothing.`,
    { retryable: true, cause: error },
  )
}
