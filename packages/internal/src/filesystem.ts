import { existsSync } from 'node:fs'
import { chmod, mkdir, statfs } from 'node:fs/promises'
import { dirname } from 'node:path'
import { errnoOf } from './errno.ts'

// Magic numbers of statfs(2) for file systems whose locks may be local to one host, or implemented by a user program.
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

/** The name of a file system that several hosts may share, by its statfs(2) type. Undefined for a local one. */
export function sharedFilesystem(type: number): string | undefined {
  return sharedFilesystems.get(type >>> 0)
}

/** The type of the file system that a path is on. Undefined if the path does not exist. */
export async function filesystemType(path: string): Promise<number | undefined> {
  try {
    const { type } = await statfs(path)
    // On other platforms the number has a different meaning.
    return process.platform === 'linux' ? type : 0
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return undefined
    throw error
  }
}

/** Why a directory on a file system of this type is refused. Undefined if locks on it exclude all other processes. */
export function refusalOf(directory: string, type: number): { text: string; advice: string } | undefined {
  const name = sharedFilesystem(type)
  if (name === undefined) return undefined
  const advice =
    'Use a local directory, or another store for elections between machines. If locks and renames on this file system are known to work across all hosts, set allowNetworkFilesystem.'
  const text = `"${directory}" is on ${name}. Locks there may be local to one host, so two hosts could both lead. ${advice}`
  return { text, advice }
}

/**
 * Creates a directory and its missing parents, and calls `onMade` for each. Node's recursive mkdir never returns if a
 * parent exists but accepts no children, as in /proc.
 */
export async function makeDirectory(
  directory: string,
  mode = 0o700,
  onMade?: (directory: string) => Promise<void>,
): Promise<void> {
  if (existsSync(directory)) return
  await makeDirectory(dirname(directory), mode, onMade)
  try {
    await mkdir(directory, { mode: 0o700 })
    // The umask removes permissions that a group needs.
    if (mode !== 0o700) await chmod(directory, mode)
  } catch (error) {
    // Another process may have created the directory in the meantime.
    if (errnoOf(error) !== 'EEXIST') throw error
  }
  await onMade?.(directory)
}
