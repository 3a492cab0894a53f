/** LMDB's file, looked at before LMDB does: what it cannot open ends the process. */
import { closeSync, constants, fsyncSync, openSync, readSync, writeSync } from 'node:fs'

// More than LMDB's table of readers takes.
const lockFileBytes = 12_288
const magic = 0xbeefc0de
/** Of each of the two pages one of which points to the newest commit. */
const offsets = { magic: 24, pageSize: 48, commit: 152, end: 160 } as const

export const remedy = 'Restore a backup and start with --after-restore.'

/** LMDB maps this file, and on a full disk the first touch of a mapped page that has no block is fatal. */
export function prepareLockFile(path: string): void {
  const file = openSync(path, constants.O_RDWR | constants.O_CREAT, 0o600)
  try {
    writeSync(file, Buffer.alloc(lockFileBytes), 0, lockFileBytes, 0)
  } finally {
    closeSync(file)
  }
}

/** Throws unless this is a file of LMDB with at least so many commits, or a new one. */
export function checkHeader(path: string, leastCommits: number | undefined): void {
  const file = openSync(path, constants.O_RDWR | constants.O_CREAT, 0o600)
  try {
    // The run before may have failed to write pages that the system still shows as written.
    fsyncSync(file)
    const first = Buffer.alloc(offsets.end)
    const length = readSync(file, first, 0, offsets.end, 0)
    if (length === 0 && leastCommits === undefined) return
    if (length === 0) throw new Error(`elections.mdb is missing or empty. ${remedy}`)
    const second = Buffer.alloc(offsets.end)
    readSync(file, second, 0, offsets.end, first.readUInt32LE(offsets.pageSize))
    const isHeader = [first, second].every((page) => page.readUInt32LE(offsets.magic) === magic)
    if (!isHeader) throw new Error(`the beginning of elections.mdb is damaged. ${remedy}`)
    const commits = [first, second].map((page) => Number(page.readBigUInt64LE(offsets.commit)))
    if (Math.max(...commits) >= (leastCommits ?? 0)) return
    throw new Error(`elections.mdb is older than what this directory has had. If it was put back, add --after-restore.`)
  } finally {
    closeSync(file)
  }
}

export function sync(path: string, flags: string): void {
  const file = openSync(path, flags)
  try {
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
}
