import { existsSync } from 'node:fs'
import { chmod, mkdir, statfs } from 'node:fs/promises'
import { dirname } from 'node:path'
import { errnoOf } from './errno.ts'

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

/** The type of the file system that a path is on; undefined if nothing is there. */
export async function filesystemType(path: string): Promise<number | undefined> {
  try {
    const { type } = await statfs(path)
    // Elsewhere the number means something else.
    return process.platform === 'linux' ? type : 0
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return undefined
    throw error
  }
}

/** Why a directory on a file system of this type is refused; undefined if its locks hold for everybody. */
export function refusalOf(directory: string, type: number): { text: string; advice: string } | undefined {
  const name = sharedFilesystem(type)
  if (name === undefined) return undefined
  const advice =
    'Use a local directory, or another store for elections between machines; if locks and renames of this file system are known to hold for all hosts, set allowNetworkFilesystem.'
  const text = `"${directory}" is on ${name}. Locks there may be local to one host, so two hosts could both lead. ${advice}`
  return { text, advice }
}

/**
 * Makes a directory and its parents where they are missing; `onMade` is called for each. Node's own way to make parents
 * never ends where a parent is there and takes no children, as in /proc.
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
    // The umask takes rights away that a group needs.
    if (mode !== 0o700) await chmod(directory, mode)
  } catch (error) {
    // Another process may have made it meanwhile.
    if (errnoOf(error) !== 'EEXIST') throw error
  }
  await onMade?.(directory)
}
