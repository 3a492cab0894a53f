/** Checks LMDB's file before LMDB opens it: a file that LMDB cannot open crashes the process. */
import { closeSync, constants, fstatSync, fsyncSync, futimesSync, openSync, readSync, writeSync } from 'node:fs'
import { systemClock } from '../common/clock.ts'
import { openOwn } from './directory-lock.ts'

// This is more than LMDB's table of readers needs.
const lockFileBytes = 12_288
const magic = 0xbeefc0de
/** Offsets in LMDB's two meta pages, one of which points to the newest commit. */
const offsets = { magic: 24, pageSize: 48, lastPage: 144, commit: 152, end: 160 } as const
/** How many bytes of a meta page are read. */
export const headerBytes = offsets.end

/** Returns the advice for damaged or missing data. */
export const restoreBackupAdvice = (directory: string) =>
  `Replace it with a backup, then run "tenure restore --data ${directory}" once.`

/** The data was damaged after it was written. */
export class DamagedDataError extends Error {}

/**
 * Writes LMDB's lock file in full. LMDB maps this file, and on a full disk the first access to a mapped page without a
 * block is fatal.
 */
export function prepareLockFile(path: string): void {
  const file = openOwn(path, constants.O_RDWR | constants.O_CREAT)
  try {
    // Write the file only once: a backup may be reading the data, and its entry in this file protects the pages it
    // reads.
    if (fstatSync(file).size >= lockFileBytes) return
    writeSync(file, Buffer.alloc(lockFileBytes), 0, lockFileBytes, 0)
  } finally {
    closeSync(file)
  }
}

/** Returns how many commits the file has had, or undefined for a new file. Throws if it is not an LMDB file. */
export function readHeader(path: string): number | undefined {
  const file = openOwn(path, constants.O_RDWR | constants.O_CREAT)
  try {
    // The previous run may have failed to write pages that the kernel still reports as written.
    fsyncSync(file)
    const first = Buffer.alloc(offsets.end)
    if (readSync(file, first, 0, offsets.end, 0) === 0) return undefined
    const second = Buffer.alloc(offsets.end)
    readSync(file, second, 0, offsets.end, first.readUInt32LE(offsets.pageSize))
    const isHeader = [first, second].every((page) => page.readUInt32LE(offsets.magic) === magic)
    if (!isHeader) throw new DamagedDataError('the beginning of elections.mdb is damaged')
    return newestOf([first, second]).commits
  } finally {
    closeSync(file)
  }
}

/** Returns the contents of the newer of the two meta pages. */
export function newestOf(pages: readonly Buffer[]): { commits: number; lastPageNumber: number } {
  const [newest] = pages
    .map((page) => ({
      commits: Number(page.readBigUInt64LE(offsets.commit)),
      lastPageNumber: Number(page.readBigUInt64LE(offsets.lastPage)),
    }))
    .toSorted((one, other) => other.commits - one.commits)
  return newest ?? { commits: 0, lastPageNumber: 0 }
}

/**
 * Identifies a file by its inode and, if the file system knows it, its birth time, so that a copy has a different
 * identity. Both survive a move within a file system and a restart of the machine.
 */
export function fileIdentity(file: number): string {
  const { ino, birthtimeNs, ctimeNs } = fstatSync(file, { bigint: true })
  // If the birth time is not known, it shows as zero or as the time of the last change.
  const isKnown = birthtimeNs > 0n && birthtimeNs !== ctimeNs
  return `${ino}.${isKnown ? birthtimeNs : ''}`
}

/** Like {@link fileIdentity}, but for a file that may be so new that its birth time equals its last change. */
export async function settledFileIdentity(file: number): Promise<string> {
  const place = fileIdentity(file)
  if (!place.endsWith('.')) return place
  // This is longer than the resolution of a kernel's file times.
  await new Promise<void>((resolve) => void systemClock.setTimer(20, resolve))
  const { atime, mtime } = fstatSync(file)
  futimesSync(file, atime, mtime)
  return fileIdentity(file)
}

/** Returns whether the identity stored in a file belongs to another file, which means that this file is a copy. */
export function isCopy(noted: string, place: string): boolean {
  const [inode, birth] = noted.split('.')
  const [ownInode, ownBirth] = place.split('.')
  if (inode !== ownInode) return true
  return Boolean(birth) && Boolean(ownBirth) && birth !== ownBirth
}

export function sync(path: string, flags: string): void {
  const file = openSync(path, flags)
  try {
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
}
