import { join } from 'node:path'
import type { Leadership } from 'tenure'
import { wallMs } from '../shared/clock.ts'
import { PrivateFolder } from './private-folder.ts'

const fileName = 'fence.json'

/** The file that TENURE_FENCE_FILE names. Each renewal replaces it atomically. */
export class FenceFile {
  readonly #onFolder: (path: string, lost: string | undefined) => void
  #folder: PrivateFolder | undefined
  #leadership: Leadership | undefined
  #writing: Promise<void> | undefined
  #isRemoved = false

  /**
   * `onFolder` is called with each new folder, and with the previous one if that is gone or belongs to another user.
   */
  constructor(onFolder: (path: string, lost: string | undefined) => void) {
    this.#onFolder = onFolder
  }

  /** The current path. It changes if the folder is lost. */
  get path(): string {
    return join(this.#folder?.path ?? '', fileName)
  }

  /** Resolves when the file shows this lease, or a newer one. */
  async update(leadership: Leadership): Promise<void> {
    this.#leadership = leadership
    // Do one write at a time, because two concurrent writes could leave the older content.
    while (this.#writing) await this.#writing.catch(() => {})
    if (this.#leadership !== leadership) return
    this.#writing = this.#write(leadership)
    try {
      await this.#writing
    } finally {
      this.#writing = undefined
    }
  }

  /** Removes the file and its folder permanently. */
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
    // Never reuse the old name, because a file or folder that has this name now is not our own.
    const folder = PrivateFolder.make()
    const lost = this.#folder?.path
    this.#folder = folder
    this.#onFolder(folder.path, lost)
    if (!(await folder.write(fileName, text))) throw new Error(`${folder.path} was removed right after it was created.`)
  }
}

/** An environment entry of every command whose fence file is in a folder, and of the processes that it starts. */
export function fenceMarker(folder: string): string {
  return `TENURE_FENCE_FILE=${join(folder, fileName)}`
}

/** Removes the files that a {@link FenceFile} has left in a folder. */
export function removeFence(folder: string): void {
  new PrivateFolder(folder).remove([fileName])
}
