import { closeSync, constants, fsyncSync, openSync, readSync, writeSync } from 'node:fs'
import { join } from 'node:path'

// Named by a variable because the package has no types.
const lockPackage: string = 'fs-native-extensions'

interface Locks {
  tryLock(file: number): boolean
  unlock(file: number): void
}
const digits = 16

/**
 * The file `lock`: held by one process at a time. It also says how many commits the data have had at least, so that
 * data that were lost, put back, or whose newest commit cannot be found do not go unnoticed. Written after each commit
 * and not synced, it may lag behind after a power cut, and never runs ahead.
 */
export class DirectoryLock {
  /** Undefined in a directory that has never been used. */
  readonly commits: number | undefined
  readonly #file: number
  readonly #locks: Locks

  private constructor(file: number, locks: Locks) {
    this.#file = file
    this.#locks = locks
    const text = Buffer.alloc(digits)
    const length = readSync(file, text, 0, digits, 0)
    this.commits = length === 0 ? undefined : Number(text.toString()) || 0
  }

  static async take(directory: string): Promise<DirectoryLock> {
    const file = openSync(join(directory, 'lock'), constants.O_RDWR | constants.O_CREAT, 0o600)
    try {
      const locks = (await import(lockPackage)) as Locks
      if (locks.tryLock(file)) return new DirectoryLock(file, locks)
      throw new Error(`The data directory ${directory} is in use by another process. One process serves it at a time.`)
    } catch (error) {
      closeSync(file)
      throw error
    }
  }

  note(commits: number): void {
    // A few bytes over the same ones: this takes no room.
    writeSync(this.#file, `${String(commits).padStart(digits, '0')}\n`, 0)
  }

  sync(): void {
    fsyncSync(this.#file)
  }

  release(): void {
    // Closing is not enough where another thread is just starting a process, which has the file too for a moment.
    this.#locks.unlock(this.#file)
    closeSync(this.#file)
  }
}
