/** The directory itself: made, and looked at before anything in it is used. */
import { lstatSync, statSync, type Stats } from 'node:fs'
import { join, resolve } from 'node:path'
import { filesystemType, makeDirectory, refusalOf } from '@tenure/internal/filesystem'
import { TenureError } from 'tenure'

/** The files of a data directory. LMDB notes its readers beside the data. `partial`: a backup that is not complete. */
export const fileNames = {
  data: 'elections.mdb',
  readers: 'elections.mdb-lock',
  lock: 'lock',
  partial: 'backup.partial',
} as const

const othersMayWrite = 0o002
const onlyOwner = { directory: 0o700, file: 0o600 } as const

/**
 * Makes the directory if it is missing, and refuses one in which another user or another host could interfere. Returns
 * what is not refused and still should be changed.
 */
export async function prepareDataDirectory(directory: string, allowNetworkFilesystem: boolean): Promise<string[]> {
  // Before anything is made where it leads, and of what is there afterwards.
  refuseForeignLink(directory)
  await makeDirectory(resolve(directory))
  refuseForeignLink(directory)
  const refusal = allowNetworkFilesystem ? undefined : refusalOf(directory, (await filesystemType(directory)) ?? 0)
  if (refusal !== undefined) {
    const { text, advice } = refusal
    throw new TenureError('UNSUPPORTED_FILESYSTEM', text, { option: 'allowNetworkFilesystem', advice })
  }
  // Windows has neither owners nor modes of this kind.
  if (process.getuid === undefined) return []
  const warnings = [warningOf(directory, statSync(directory), onlyOwner.directory)]
  for (const name of Object.values(fileNames)) {
    const path = join(directory, name)
    const file = lstatSync(path, { throwIfNoEntry: false })
    if (!file) continue
    if (!file.isFile())
      throw new Error(`${name} is not a plain file. Links are not followed: put the file itself there.`)
    warnings.push(warningOf(path, file, onlyOwner.file))
  }
  return warnings.filter((warning) => warning !== undefined)
}

/** In a directory such as /tmp anybody can make a link, and its owner decides where it leads: even the data of root. */
function refuseForeignLink(directory: string): void {
  const self = process.getuid?.()
  const found = lookAt(resolve(directory))
  if (self === undefined || !found?.isSymbolicLink() || found.uid === self || found.uid === 0) return
  const whose = `${directory} is a link of the user with the number ${found.uid}, who decides where it leads.`
  throw new Error(`${whose} Name the directory itself, or make the link as the user that serves it (number ${self}).`)
}

/** A link can always be looked at. What cannot is not a link, such as a mount of FUSE, and is refused by what follows. */
function lookAt(path: string): Stats | undefined {
  try {
    return lstatSync(path, { throwIfNoEntry: false })
  } catch {
    return undefined
  }
}

/** Throws where another user could replace the data. */
function warningOf(path: string, { uid, mode }: Stats, allowed: number): string | undefined {
  const self = process.getuid?.() ?? 0
  const chmod = `chmod ${allowed.toString(8)} ${path}`
  // Root can do everything anyway.
  if (uid !== self && uid !== 0) {
    const text = `${path} belongs to the user with the number ${uid}, who can replace what is there. Give it to the user that serves it (number ${self}): chown ${self} ${path}`
    if (self !== 0) throw new Error(text)
    return text
  }
  if (mode & othersMayWrite) {
    throw new Error(
      `every user can write to ${path}. Take that right away (${chmod}), or choose a new directory below.`,
    )
  }
  const excess = mode & 0o777 & ~allowed
  return excess === 0 ? undefined : `other users have rights to ${path} that they do not need. Take them away: ${chmod}`
}
