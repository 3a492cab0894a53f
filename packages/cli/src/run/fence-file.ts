import { rename, writeFile } from 'node:fs/promises'
import type { Leadership } from 'tenure'
import { wallMs } from '../clock.ts'

/** The file that TENURE_FENCE_FILE names. What it says of the lease is replaced in one step at each renewal. */
export class FenceFile {
  readonly path: string
  #leadership: Leadership | undefined
  #writing: Promise<void> | undefined

  constructor(path: string) {
    this.path = path
  }

  /** Resolves when the file says how things stand now, or later. */
  async update(leadership: Leadership): Promise<void> {
    this.#leadership = leadership
    // One at a time: two that overtake each other would leave the older one.
    while (this.#writing) await this.#writing.catch(() => {})
    if (this.#leadership !== leadership) return
    this.#writing = this.#write(leadership)
    try {
      await this.#writing
    } finally {
      this.#writing = undefined
    }
  }

  async #write(leadership: Leadership): Promise<void> {
    const { election, identity, term } = leadership
    const writtenAtMs = wallMs()
    const leaseLeftMs = Math.floor(leadership.drainMs())
    const lease = { election, identity, term, leaseEndsAtMs: writtenAtMs + leaseLeftMs, leaseLeftMs, writtenAtMs }
    await writeFile(`${this.path}.new`, `${JSON.stringify(lease)}\n`)
    await rename(`${this.path}.new`, this.path)
  }
}
