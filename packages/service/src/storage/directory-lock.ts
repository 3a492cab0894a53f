import {
  closeSync,
  constants,
  fchownSync,
  fdatasyncSync,
  fstatSync,
  fsyncSync,
  openSync,
  readSync,
  statSync,
  writeSync,
} from 'node:fs'
import { stat } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { secret } from '@tenure/internal/clock'
import { loadKernelLocks, type KernelLocks } from '@tenure/internal/kernel-locks'
import { ProofThread } from './proof-thread.ts'

/**
 * The range to lock in the data file. On Windows a lock keeps others from writing to the range, so this range is one
 * byte far beyond the end.
 */
const range = process.platform === 'win32' ? ([2 ** 52, 1] as const) : ([] as const)
const digits = 16
/** Where the owner's mark is: after the number of commits, in the same disk block. */
const mark = { at: 32, length: 32 } as const
/** The offset that a proof writes to. It is next to the mark, because the mark may already be a successor's. */
const sign = { at: 96, text: 'alive\n' } as const

/** The directory certainly belongs to another process, or no longer exists. */
export class OwnershipLostError extends Error {}

/** A file that this process has open, and its path. */
export interface OpenFile {
  readonly path: string
  readonly file: number
}

/**
 * The file `lock`, which one process holds at a time. It also records a lower bound for the number of commits in the
 * data, so that lost or restored data, or data whose newest commit cannot be found, is noticed. The number is written
 * after each commit and not synced. It may lag behind after a power cut, but is never too high.
 *
 * After that number comes the mark of the process that serves the data, a random string: see {@link prove}.
 */
export class DirectoryLock {
  /** Undefined in a directory that has never been used. */
  readonly commits: number | undefined
  readonly #path: string
  readonly #file: number
  readonly #locks: KernelLocks
  readonly #mark = secret(mark.length / 2).toString('hex')
  readonly #others = new Set<number>()
  readonly #thread = new ProofThread()
  #takenOver = false

  private constructor(path: string, file: number, locks: KernelLocks) {
    this.#path = path
    this.#file = file
    this.#locks = locks
    const text = Buffer.alloc(digits)
    const length = readSync(file, text, 0, digits, 0)
    this.commits = length === 0 ? undefined : Number(text.toString()) || 0
  }

  static async take(directory: string): Promise<DirectoryLock> {
    const lock = await DirectoryLock.tryTake(directory)
    if (lock) return lock
    throw new Error(inUse)
  }

  /** Resolves to undefined if another process has the lock. */
  static async tryTake(directory: string): Promise<DirectoryLock | undefined> {
    const path = join(directory, 'lock')
    const file = openOwn(path, constants.O_RDWR | constants.O_CREAT)
    try {
      const locks = await loadKernelLocks()
      if (!locks.tryLock(file)) {
        closeSync(file)
        return undefined
      }
      if (isThere({ path, file })) return new DirectoryLock(path, file, locks)
      throw new Error(`${path} was just moved or replaced. Try again.`)
    } catch (error) {
      closeSync(file)
      throw error
    }
  }

  /**
   * Also locks another open file, in case someone deletes the lock file. Returns false if another process has it
   * locked.
   */
  lockAlso(file: number): boolean {
    if (!this.#locks.tryLock(file, ...range)) return false
    this.#others.add(file)
    return true
  }

  /** Unlocks a file that {@link lockAlso} locked, if any. */
  free(file: number): void {
    if (this.#others.delete(file)) this.#locks.unlock(file, ...range)
  }

  note(commits: number): void {
    // Overwrites the same few bytes, so it needs no disk space.
    writeSync(this.#file, `${String(commits).padStart(digits, '0')}\n`, 0)
  }

  /** Writes and syncs the mark that {@link prove} checks. */
  sign(): void {
    writeSync(this.#file, `${this.#mark}\n`, mark.at)
    writeSync(this.#file, sign.text, sign.at)
    fdatasyncSync(this.#file)
  }

  /**
   * Rejects unless this process still owns the directory and can write to it. It still owns the directory if a write in
   * place has reached the disk, no other process has signed after that, and the lock file and `others` are still the
   * files at their paths. The write needs no space, so it succeeds on a full disk.
   */
  async prove(others: readonly OpenFile[]): Promise<void> {
    const proven = await this.#thread.prove({
      file: this.#file,
      sign,
      mark: { at: mark.at, text: this.#mark },
      places: this.#places(others),
    })
    this.#takenOver ||= proven.result === 'taken over'
    if (this.#takenOver) throw new OwnershipLostError('another process has taken it over')
    if (proven.result === 'gone') throw notThere(proven.path)
    if (proven.result === 'failed') throw Object.assign(new Error(proven.message), { code: proven.code })
  }

  /** Rejects unless the lock file and `others` are still the files at their paths. */
  async requirePlace(others: readonly OpenFile[]): Promise<void> {
    for (const { path, file } of this.#places(others)) {
      const there = await stat(path, { bigint: true }).catch((error: NodeJS.ErrnoException) => {
        if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return undefined
        throw error
      })
      if (!there || !isSameFile(there, fstatSync(file, { bigint: true }))) {
        throw notThere(path)
      }
    }
  }

  #places(others: readonly OpenFile[]): readonly OpenFile[] {
    return [{ path: this.#path, file: this.#file }, ...others]
  }

  sync(): void {
    fsyncSync(this.#file)
  }

  /** Starts the thread for {@link prove} in advance. */
  startProofs(): void {
    this.#thread.start()
  }

  /** Stops the thread for {@link prove}. */
  stopProofs(): Promise<void> {
    return this.#thread.stop()
  }

  release(): void {
    // Closing the file does not release the lock if another thread is just starting a child process, which briefly
    // shares the file.
    this.#locks.unlock(this.#file)
    closeSync(this.#file)
  }
}

/** The error text for a directory that another process has locked. */
export const inUse = 'it is in use by another process. Only one process can use it at a time.'

/** Opens a file of the data directory, creating it with access for its owner only, and never follows a link. */
export function openOwn(path: string, flags: number): number {
  const safeFlags = flags | constants.O_NOFOLLOW
  if (!(flags & constants.O_CREAT)) return openSync(path, safeFlags)
  try {
    const file = openSync(path, safeFlags | constants.O_EXCL, 0o600)
    giveToOwner(file, dirname(path))
    return file
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return openSync(path, safeFlags, 0o600)
    throw error
  }
}

/**
 * Lets the owner of the directory use files that root creates in it. Applies only to new files: an existing one may be
 * a system file that the user has linked to.
 */
function giveToOwner(file: number, directory: string): void {
  if (process.getuid?.() !== 0) return
  const { uid, gid } = statSync(directory)
  if (uid !== 0) fchownSync(file, uid, gid)
}

function notThere(path: string): OwnershipLostError {
  return new OwnershipLostError(`${basename(path)} was moved, deleted, or replaced`)
}

function isThere({ path, file }: OpenFile): boolean {
  const there = statSync(path, { bigint: true, throwIfNoEntry: false })
  return there !== undefined && isSameFile(there, fstatSync(file, { bigint: true }))
}

interface FileIdentity {
  readonly dev: bigint
  readonly ino: bigint
}

function isSameFile(one: FileIdentity, other: FileIdentity): boolean {
  return one.dev === other.dev && one.ino === other.ino
}
