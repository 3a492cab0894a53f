import { fstatSync, read, write } from 'node:fs'
import { promisify } from 'node:util'
import { headerBytes, newestOf } from './data-file.ts'

const readAsync = promisify(read)
const writeAsync = promisify(write)
/** Pages that LMDB needs for itself: its root, and what it notes of free pages. */
const ownPages = 16
/** Taken beyond what is needed, so that some can still resign when the disk is full. */
const sparePages = 64
const chunkBytes = 2 ** 16

/**
 * Room at the end of the data file. It is taken before each commit, because LMDB, when it finds the disk full in the
 * middle of one, writes that to standard error by itself, past the log. Here a full disk is an error like any other.
 */
export class Reserve {
  readonly #file: number
  readonly #pageSize: number
  #bytes = 0
  /** The last page has no higher number, as far as commits took no more than was taken for them. */
  #lastPageAtMost = Infinity

  constructor(file: number, pageSize: number) {
    this.#file = file
    this.#pageSize = pageSize
  }

  /** Rejects unless there is room behind the last page for records of these lengths. No commit may be under way. */
  async take(lengths: readonly number[]): Promise<void> {
    const most = this.#pagesFor(lengths, this.#lastPageAtMost)
    this.#lastPageAtMost += most
    if (this.#bytesUpTo(this.#lastPageAtMost) <= this.#bytes) return
    const lastPageNumber = await this.#lastPageNumber()
    this.#lastPageAtMost = lastPageNumber + this.#pagesFor(lengths, lastPageNumber)
    const needed = this.#bytesUpTo(this.#lastPageAtMost)
    if (needed <= this.#bytes) return
    try {
      await this.#grow(needed + sparePages * this.#pageSize)
    } catch (error) {
      if (this.#bytes < needed) throw error
    }
  }

  #pagesFor(lengths: readonly number[], lastPageNumber: number): number {
    const bytes = lengths.reduce((sum, length) => sum + length, 0)
    // What is new takes twice its size at most. Beside that, each record changes a page and splits another at most, and
    // all of them together no more pages than there are.
    const changed = Math.min(2 * lengths.length, lastPageNumber)
    return ownPages + changed + Math.ceil((2 * bytes) / this.#pageSize)
  }

  #bytesUpTo(pageNumber: number): number {
    return (pageNumber + 1) * this.#pageSize
  }

  /**
   * Not asked of LMDB, which would note a reader in a file that it has mapped: on a disk that does not answer such a
   * write stops the whole process.
   */
  async #lastPageNumber(): Promise<number> {
    const pages = [Buffer.alloc(headerBytes), Buffer.alloc(headerBytes)]
    for (const [index, page] of pages.entries()) {
      await readAsync(this.#file, page, 0, headerBytes, index * this.#pageSize)
    }
    return newestOf(pages).lastPageNumber
  }

  async #grow(bytes: number): Promise<void> {
    // Behind the end of the file, where LMDB has never written. Zeros, not a hole: only those have a place on the disk.
    this.#bytes = fstatSync(this.#file).size
    while (this.#bytes < bytes) {
      const zeros = Buffer.alloc(Math.min(bytes - this.#bytes, chunkBytes))
      const { bytesWritten } = await writeAsync(this.#file, zeros, 0, zeros.length, this.#bytes)
      this.#bytes += bytesWritten
    }
  }
}
