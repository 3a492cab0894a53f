import { join } from 'node:path'
import type { Leadership } from 'tenure'
import { wallMs } from '../shared/clock.ts'
import { OwnFolder } from './own-folder.ts'

const fileName = 'fence.json'

/** The file that TENURE_FENCE_FILE names. It is replaced in one step at each renewal. */
export class FenceFile {
  readonly #onFolder: (path: string, lost: string | undefined) => void
  #folder: OwnFolder | undefined
  #leadership: Leadership | undefined
  #writing: Promise<void> | undefined
  #isRemoved = false

  /** `onFolder` gets each new folder, and the one before it, which is gone or belongs to another user. */
  constructor(onFolder: (path: string, lost: string | undefined) => void) {
    this.#onFolder = onFolder
  }

  /** Where it is. It moves if its folder is lost. */
  get path(): string {
    return join(this.#folder?.path ?? '', fileName)
  }

  /** Resolves when the file shows the lease as it is now, or later. */
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

  /** For good. */
  remove(): void {
    this.#isRemoved = true
    if (this.#folder) removeFence(this.#folder.path)
  }

  async #write(leadership: Leadership): Promise<void> {
    const { election, identity, term } = leadership
    const writtenAtMs = wallMs()
    const leaseLeftMs = Math.floor(leadership.drainMs())
    const lease = { election, identity, term, leaseEndsAtMs: writtenAtMs + leaseLeftMs, leaseLeftMs, writtenAtMs }
    const text = `${JSON.stringify(lease)}\n`
    if (await this.#folder?.write(fileName, text)) return
    if (this.#isRemoved) return
    // Never the old name: what has it now is not ours.
    const folder = OwnFolder.make()
    const lost = this.#folder?.path
    this.#folder = folder
    this.#onFolder(folder.path, lost)
    if (!(await folder.write(fileName, text))) throw new Error(`${folder.path} was removed as soon as it was made.`)
  }
}

/** Clears away what a {@link FenceFile} has left in a folder. */
export function removeFence(folder: string): void {
  new OwnFolder(folder).remove([fileName])
}
