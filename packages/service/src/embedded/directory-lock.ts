import { closeSync, constants, fsyncSync, openSync, readSync, writeSync } from 'node:fs'
import { join } from 'node:path'

// Named by a variable because the package has no types.
const lockPackage: string = 'fs-native-extensions'
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

  private constructor(file: number) {
    this.#file = file
    const text = Buffer.alloc(digits)
    const length = readSync(file, text, 0, digits, 0)
    this.commits = length === 0 ? undefined : Number(text.toString()) || 0
  }

  static async take(directory: string): Promise<DirectoryLock> {
    const file = openSync(join(directory, 'lock'), constants.O_RDWR | constants.O_CREAT, 0o600)
    try {
      const { tryLock } = (await import(lockPackage)) as { tryLock(fd: number): boolean }
      if (tryLock(file)) return new DirectoryLock(file)
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
    closeSync(this.#file)
  }
}
