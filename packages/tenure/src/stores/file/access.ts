import { fchmodSync, fstatSync, lstatSync, statSync, type Stats } from 'node:fs'
import { TenureError } from '../../common/errors.ts'
import { warnOnce } from '../../log/advice.ts'

/** Which processes take part: those of one user, or those of all members of a group. */
export interface Access {
  readonly isShared: boolean
  readonly directoryMode: number
  readonly fileMode: number
}

// With the set-group-ID bit, new files inherit the directory's group.
const groupAccess: Access = { isShared: true, directoryMode: 0o2770, fileMode: 0o660 }
const ownerAccess: Access = { isShared: false, directoryMode: 0o700, fileMode: 0o600 }
const setGroupId = 0o2000
const groupWrite = 0o020

const sharing = 'set shareWithGroup (in a URL: ?shareWithGroup=true)'

/** Advice for an operation that the kernel denied to this user. */
export function adviceForRights({ isShared }: Access): string {
  return isShared
    ? 'The group must have write access, and this user must be a member. Have the owner run chgrp and chmod 0660 on ' +
        'the files, and chgrp and chmod g+s,g+rwx on the directory'
    : `Allow this user to read and write the directory and its files. To share them within a group, ${sharing}`
}

export function accessFor(shareWithGroup: boolean): Access {
  return shareWithGroup ? groupAccess : ownerAccess
}

/** Undefined on Windows, where modes and owners have no meaning. */
const ownUser = (): number | undefined => process.geteuid?.()

/**
 * Refuses a directory that another user could replace or redirect with a symbolic link, and warns if the directory is
 * open to users that do not take part.
 */
export function checkDirectory(directory: string, access: Access): void {
  const link = lstatSync(directory)
  // Anyone can create a link in a directory such as /tmp, and the owner of the link decides where it points.
  if (link.isSymbolicLink()) checkOwner(directory, link, ownerAccess)
  const found = link.isSymbolicLink() ? statSync(directory) : link
  checkOwner(directory, found, access)
  warnAboutMode(directory, found, access)
}

/**
 * Checks an opened file. A file that this user owns in a shared directory gets the required mode, regardless of the
 * umask.
 */
export function checkOpened(fd: number, path: string, access: Access): void {
  const found = fstatSync(fd)
  if (!found.isFile()) throw notAFile(path)
  checkOwner(path, found, access)
  const isOurs = found.uid === ownUser()
  if (access.isShared && isOurs && (found.mode & 0o777) !== access.fileMode) fchmodSync(fd, access.fileMode)
  else warnAboutMode(path, found, access)
}

/**
 * Refuses a path that another user owns, because the owner can change it. Root and this user are trusted, and so are
 * all members of a shared group.
 */
export function checkOwner(path: string, { uid }: Stats, access: Access): void {
  const user = ownUser()
  if (user === undefined || access.isShared || uid === user || uid === 0) return
  throw new TenureError(
    'UNSAFE_PERMISSIONS',
    `"${path}" belongs to another user (uid ${uid}; this process has uid ${user}), who could take the lease or ` +
      `end a leadership. Choose a directory that this user owns. To share it within a group, ${sharing}.`,
  )
}

export function notAFile(path: string): TenureError {
  return new TenureError(
    'RECORD_INVALID',
    `"${path}" is not a regular file, and links are not followed. Its election has no leader until you find out who created it, ` +
      'and remove it.',
  )
}

/** Warns if users that do not take part have access, and if files in a shared directory do not inherit its group. */
function warnAboutMode(path: string, found: Stats, access: Access): void {
  const wanted = found.isDirectory() ? access.directoryMode : access.fileMode
  const isLoose = (found.mode & 0o077 & ~wanted) !== 0
  // Systems other than Linux always give a new file the group of its directory.
  const handsGroupOn = !found.isDirectory() || (found.mode & setGroupId) !== 0 || process.platform !== 'linux'
  if (ownUser() === undefined || (!isLoose && (handsGroupOn || !access.isShared))) return
  const danger = isLoose
    ? 'other users on this machine may access it, and a lock that they hold can end a leadership'
    : 'without the set-group-ID bit, new files get the primary group of their creator, so other users may be unable to use them'
  const toDo = chmodAdvice(path, found, access, isLoose ? octal(wanted) : 'g+s')
  warnOnce('UNSAFE_PERMISSIONS', `"${path}" has mode ${octal(found.mode)}: ${danger}. ${toDo}`)
}

/** Suggests a `chmod`, unless it would lock out this user or users who seem to share the path already. */
function chmodAdvice(path: string, found: Stats, access: Access, mode: string): string {
  const isOurs = found.uid === ownUser()
  if (access.isShared) return `${isOurs ? 'Run' : 'Have its owner run'}: chmod ${mode} '${path}'`
  const shared = found.isDirectory() ? setGroupId | groupWrite : groupWrite
  if (isOurs && (found.mode & shared) !== shared) return `Run: chmod ${mode} '${path}'`
  return `To share it within a group, ${sharing}. Otherwise choose a directory that only this user can access.`
}

const octal = (mode: number) => (mode & 0o7777).toString(8).padStart(4, '0')
