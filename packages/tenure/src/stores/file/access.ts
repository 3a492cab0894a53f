import { fchmodSync, fstatSync, lstatSync, statSync, type Stats } from 'node:fs'
import { TenureError } from '../../errors.ts'
import { adviseOnce } from '../../advice.ts'

/** Whose processes take part: those of one user, or those of all members of a group. */
export interface Access {
  readonly isShared: boolean
  readonly directoryMode: number
  readonly fileMode: number
}

// The set-group-ID bit hands the directory's group on to the files in it.
const groupAccess: Access = { isShared: true, directoryMode: 0o2770, fileMode: 0o660 }
const ownerAccess: Access = { isShared: false, directoryMode: 0o700, fileMode: 0o600 }
const setGroupId = 0o2000
const groupWrite = 0o020

const sharing = 'set shareWithGroup (in a URL: ?shareWithGroup=true)'

/** What to do where the kernel refuses this user. */
export function adviceForRights({ isShared }: Access): string {
  return isShared
    ? 'The group must be able to write there, and this user must be in it: let the owner run chgrp and chmod 0660 on ' +
        'the files, and chgrp and chmod g+s,g+rwx on the directory'
    : `Allow this user to read and write the directory and the files in it; users of one group ${sharing}`
}

export function accessFor(shareWithGroup: boolean): Access {
  return shareWithGroup ? groupAccess : ownerAccess
}

/** Undefined on Windows, where modes and owners mean nothing. */
const ownUser = (): number | undefined => process.geteuid?.()

/**
 * Refuses a directory that another user could replace or that leads elsewhere by another user's link, and warns of one
 * that is open to more users than take part.
 */
export function checkDirectory(directory: string, access: Access): void {
  const link = lstatSync(directory)
  // In a directory such as /tmp anybody can make a link, and its owner decides where it leads.
  if (link.isSymbolicLink()) refuseForeign(directory, link, ownerAccess)
  const found = link.isSymbolicLink() ? statSync(directory) : link
  refuseForeign(directory, found, access)
  warnOfMode(directory, found, access)
}

/** Checks a file that was opened, and gives a new one of ours the mode that was asked for, whatever the umask. */
export function checkOpened(fd: number, path: string, access: Access): void {
  const found = fstatSync(fd)
  if (!found.isFile()) throw notAFile(path)
  refuseForeign(path, found, access)
  const isOurs = found.uid === ownUser()
  if (access.isShared && isOurs && (found.mode & 0o777) !== access.fileMode) fchmodSync(fd, access.fileMode)
  else warnOfMode(path, found, access)
}

/** What another user owns, that user can change: root and this user are trusted, and all members of a shared group. */
export function refuseForeign(path: string, { uid }: Stats, access: Access): void {
  const user = ownUser()
  if (user === undefined || access.isShared || uid === user || uid === 0) return
  throw new TenureError(
    'UNSAFE_PERMISSIONS',
    `"${path}" belongs to another user (uid ${uid}, while this process has ${user}), who could take the lease or ` +
      `end a leadership. Choose a directory of this user. If users of one group share it on purpose, ${sharing}.`,
  )
}

export function notAFile(path: string): TenureError {
  return new TenureError(
    'RECORD_INVALID',
    `"${path}" is not a plain file, and links are not followed. Nobody is elected there: find out who made it, ` +
      'then remove it.',
  )
}

/** Warns of rights of more users than take part, and of a shared directory that does not hand its group on. */
function warnOfMode(path: string, found: Stats, access: Access): void {
  const wanted = found.isDirectory() ? access.directoryMode : access.fileMode
  const isLoose = (found.mode & 0o077 & ~wanted) !== 0
  // Elsewhere than on Linux a new file always gets the group of its directory.
  const handsGroupOn = !found.isDirectory() || (found.mode & setGroupId) !== 0 || process.platform !== 'linux'
  if (ownUser() === undefined || (!isLoose && (handsGroupOn || !access.isShared))) return
  const danger = isLoose
    ? 'other users of this machine may get at it, and a lock that they hold ends a leadership'
    : 'without the set-group-ID bit, files in it get the group of the user that makes them, and other users may not use them'
  const toDo = mend(path, found, access, isLoose ? octal(wanted) : 'g+s')
  adviseOnce('UNSAFE_PERMISSIONS', `"${path}" has mode ${octal(found.mode)}: ${danger}. ${toDo}`)
}

/** A `chmod`, unless that would lock somebody out: this user, or those who seem to share it already. */
function mend(path: string, found: Stats, access: Access, mode: string): string {
  const isOurs = found.uid === ownUser()
  if (access.isShared) return `${isOurs ? 'Run' : 'Let its owner run'}: chmod ${mode} '${path}'`
  const shared = found.isDirectory() ? setGroupId | groupWrite : groupWrite
  if (isOurs && (found.mode & shared) !== shared) return `Run: chmod ${mode} '${path}'`
  return `If users of one group share it on purpose, ${sharing}. If not, choose a directory that only this user may use.`
}

const octal = (mode: number) => (mode & 0o7777).toString(8).padStart(4, '0')
