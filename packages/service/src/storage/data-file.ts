/** LMDB's file, looked at before LMDB does: what it cannot open ends the process. */
import { closeSync, constants, fstatSync, fsyncSync, futimesSync, openSync, readSync, writeSync } from 'node:fs'
import { systemClock } from '../clock.ts'
import { openOwn } from './directory-lock.ts'

// More than LMDB's table of readers takes.
const lockFileBytes = 12_288
const magic = 0xbeefc0de
/** Of each of the two pages one of which points to the newest commit. */
const offsets = { magic: 24, pageSize: 48, lastPage: 144, commit: 152, end: 160 } as const
/** How much of such a page is read. */
export const headerBytes = offsets.end

/** Where data are damaged or missing. */
export const remedy = (directory: string) =>
  `Put a backup in its place, then run "tenure restore --data ${directory}" once.`

/** The data are not what was written. */
export class Damage extends Error {}

/** LMDB maps this file, and on a full disk the first touch of a mapped page that has no block is fatal. */
export function prepareLockFile(path: string): void {
  const file = openOwn(path, constants.O_RDWR | constants.O_CREAT)
  try {
    // Only once: a backup may be reading the data, and what it notes here keeps its pages from being written over.
    if (fstatSync(file).size >= lockFileBytes) return
    writeSync(file, Buffer.alloc(lockFileBytes), 0, lockFileBytes, 0)
  } finally {
    closeSync(file)
  }
}

/** How many commits the file has had; undefined for a new one. Throws unless it is one of LMDB. */
export function readHeader(path: string): number | undefined {
  const file = openOwn(path, constants.O_RDWR | constants.O_CREAT)
  try {
    // The run before may have failed to write pages that the system still shows as written.
    fsyncSync(file)
    const first = Buffer.alloc(offsets.end)
    if (readSync(file, first, 0, offsets.end, 0) === 0) return undefined
    const second = Buffer.alloc(offsets.end)
    readSync(file, second, 0, offsets.end, first.readUInt32LE(offsets.pageSize))
    const isHeader = [first, second].every((page) => page.readUInt32LE(offsets.magic) === magic)
    if (!isHeader) throw new Damage('the beginning of elections.mdb is damaged')
    return newestOf([first, second]).commits
  } finally {
    closeSync(file)
  }
}

/** What the newer of the two pages says. */
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
 * Which file this is, as far as a copy of it is another one: its inode and, where the file system knows it, the time of
 * its birth. Both outlive a move within a file system and a restart of the machine.
 */
export function placeOf(file: number): string {
  const { ino, birthtimeNs, ctimeNs } = fstatSync(file, { bigint: true })
  // Where the birth is not known, it is shown as zero or as the time of the last change.
  const isKnown = birthtimeNs > 0n && birthtimeNs !== ctimeNs
  return `${ino}.${isKnown ? birthtimeNs : ''}`
}

/** Like {@link placeOf}, for a file that may be so new that its birth cannot be told from its last change. */
export async function settledPlaceOf(file: number): Promise<string> {
  const place = placeOf(file)
  if (!place.endsWith('.')) return place
  // Longer than the steps in which a kernel counts such times.
  await new Promise<void>((resolve) => void systemClock.setTimer(20, resolve))
  const { atime, mtime } = fstatSync(file)
  futimesSync(file, atime, mtime)
  return placeOf(file)
}

/** Whether what was noted in a file was noted in another one. */
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
