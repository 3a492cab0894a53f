/** Creates the data directory, and checks it before anything in it is used. */
import { lstatSync, statSync, type Stats } from 'node:fs'
import { join, resolve } from 'node:path'
import { filesystemType, makeDirectory, refusalOf } from '@tenure/internal/filesystem'
import { TenureError } from 'tenure'

/**
 * The files of a data directory. LMDB keeps its table of readers next to the data. `partial` is an incomplete backup.
 */
export const fileNames = {
  data: 'elections.mdb',
  readers: 'elections.mdb-lock',
  lock: 'lock',
  partial: 'backup.partial',
} as const

const othersMayWrite = 0o002
const onlyOwner = { directory: 0o700, file: 0o600 } as const

/**
 * Creates the directory if it is missing, and refuses one in which another user or host could interfere. Returns
 * warnings about settings that are accepted but should be changed.
 */
export async function prepareDataDirectory(directory: string, allowNetworkFilesystem: boolean): Promise<string[]> {
  // Check before anything is created at the target of a link, and check again afterwards.
  refuseForeignLink(directory)
  await makeDirectory(resolve(directory))
  refuseForeignLink(directory)
  const refusal = allowNetworkFilesystem ? undefined : refusalOf(directory, (await filesystemType(directory)) ?? 0)
  if (refusal !== undefined) {
    const { text, advice } = refusal
    throw new TenureError('UNSUPPORTED_FILESYSTEM', text, { option: 'allowNetworkFilesystem', advice })
  }
  // Windows has no such owners and modes.
  if (process.getuid === undefined) return []
  const warnings = [warningOf(directory, statSync(directory), onlyOwner.directory)]
  for (const name of Object.values(fileNames)) {
    const path = join(directory, name)
    const file = lstatSync(path, { throwIfNoEntry: false })
    if (!file) continue
    if (!file.isFile())
      throw new Error(`${name} is not a regular file. Links are not followed: put the file itself there.`)
    warnings.push(warningOf(path, file, onlyOwner.file))
  }
  return warnings.filter((warning) => warning !== undefined)
}

/**
 * In a directory such as /tmp, anyone can create a link, and the link's owner decides where it points, possibly to
 * root's data.
 */
function refuseForeignLink(directory: string): void {
  const self = process.getuid?.()
  const found = lookAt(resolve(directory))
  if (self === undefined || !found?.isSymbolicLink() || found.uid === self || found.uid === 0) return
  const whose = `${directory} is a link owned by user ${found.uid}, who decides where it leads.`
  throw new Error(`${whose} Name the directory itself, or create the link as the user that runs the service (${self}).`)
}

/**
 * lstat on a link always succeeds. A path on which it fails is not a link but, for example, a FUSE mount. Later checks
 * refuse it.
 */
function lookAt(path: string): Stats | undefined {
  try {
    return lstatSync(path, { throwIfNoEntry: false })
  } catch {
    return undefined
  }
}

/** Throws if another user could replace the data. */
function warningOf(path: string, { uid, mode }: Stats, allowed: number): string | undefined {
  const self = process.getuid?.() ?? 0
  const chmod = `chmod ${allowed.toString(8)} ${path}`
  // Root can do anything regardless of permissions.
  if (uid !== self && uid !== 0) {
    const text = `${path} belongs to user ${uid}, who can replace its contents. Change its owner to the user that runs the service (${self}): chown ${self} ${path}`
    if (self !== 0) throw new Error(text)
    return text
  }
  if (mode & othersMayWrite) {
    throw new Error(
      `every user can write to ${path}. Remove that permission (${chmod}), or choose a new directory below it.`,
    )
  }
  const excess = mode & 0o777 & ~allowed
  return excess === 0
    ? undefined
    : `other users have permissions on ${path} that they do not need. Remove them: ${chmod}`
}
