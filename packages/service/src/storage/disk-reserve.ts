import { fstatSync, read, write } from 'node:fs'
import { promisify } from 'node:util'
import { headerBytes, newestOf } from './data-file.ts'

const readAsync = promisify(read)
const writeAsync = promisify(write)
/** Pages that LMDB needs for itself: its root, and its list of free pages. */
const ownPages = 16
/** Additional reserve, so that some nodes can still resign when the disk is full. */
const sparePages = 64
const chunkBytes = 2 ** 16

/**
 * Reserves space at the end of the data file before each commit. When LMDB finds the disk full in the middle of a
 * commit, it writes that to standard error itself, bypassing the log. With the reserve, a full disk is an error like
 * any other.
 */
export class DiskReserve {
  readonly #file: number
  readonly #pageSize: number
  #bytes = 0
  /** An upper limit for the number of the last page, provided that commits used no more than was reserved for them. */
  #lastPageAtMost = Infinity

  constructor(file: number, pageSize: number) {
    this.#file = file
    this.#pageSize = pageSize
  }

  /** Rejects unless there is space after the last page for records of these lengths. No commit may be in flight. */
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
    // New data takes at most twice its size. In addition, each record changes at most one page and splits at most one,
    // and all of them together change no more pages than exist.
    const changed = Math.min(2 * lengths.length, lastPageNumber)
    return ownPages + changed + Math.ceil((2 * bytes) / this.#pageSize)
  }

  #bytesUpTo(pageNumber: number): number {
    return (pageNumber + 1) * this.#pageSize
  }

  /**
   * Reads the page number from the file. LMDB itself would register a reader in a mapped file, and on a disk that does
   * not answer such a write blocks the whole process.
   */
  async #lastPageNumber(): Promise<number> {
    const pages = [Buffer.alloc(headerBytes), Buffer.alloc(headerBytes)]
    for (const [index, page] of pages.entries()) {
      await readAsync(this.#file, page, 0, headerBytes, index * this.#pageSize)
    }
    return newestOf(pages).lastPageNumber
  }

  async #grow(bytes: number): Promise<void> {
    // Write after the end of the file, where LMDB has never written. Write zeros, because a hole would reserve no space
    // on the disk.
    this.#bytes = fstatSync(this.#file).size
    while (this.#bytes < bytes) {
      const zeros = Buffer.alloc(Math.min(bytes - this.#bytes, chunkBytes))
      const { bytesWritten } = await writeAsync(this.#file, zeros, 0, zeros.length, this.#bytes)
      this.#bytes += bytesWritten
    }
  }
}
