import { join } from 'node:path'
import { wallMs } from '../shared/clock.ts'
import { PrivateFolder } from './private-folder.ts'

const variable = 'TENURE_FENCE_FILE'
const fileName = 'fence.json'

/** The name of the fence file of a shard. */
export function shardFileName(shard: number): string {
  return `shard-${shard}.json`
}

function isFenceFile(name: string): boolean {
  return name === fileName || /^shard-\d+\.json$/.test(name)
}

/** What a fence file says about a lease. */
export interface FencedLease {
  /** The fields that name the lease. */
  readonly names: Readonly<Record<string, string | number>>
  /** The time until another process may have the lease. */
  leftMs(): number
}

/** The folder of all fence files of this process. */
export class FenceFolder {
  readonly #onFolder: (path: string, lost: string | undefined) => void
  #folder: PrivateFolder | undefined
  #writing: Promise<unknown> = Promise.resolve()
  #isRemoved = false

  /**
   * `onFolder` is called with each new folder, and with the previous one if that is gone or belongs to another user.
   */
  constructor(onFolder: (path: string, lost: string | undefined) => void) {
    this.#onFolder = onFolder
  }

  /** The current path. It changes if the folder is lost. */
  get path(): string {
    return this.#folder?.path ?? ''
  }

  /** Replaces a file atomically. `textOf` is called right before. */
  async write(name: string, textOf: () => string): Promise<void> {
    // One write at a time, so that a lost folder is replaced only once.
    const written = this.#writing.then(() => this.#write(name, textOf()))
    this.#writing = written.catch(() => {})
    await written
  }

  /** Removes the files and the folder permanently. */
  remove(): void {
    this.#isRemoved = true
    if (this.#folder) removeFences(this.#folder.path)
  }

  async #write(name: string, text: string): Promise<void> {
    if (await this.#folder?.write(name, text)) return
    if (this.#isRemoved) return
    // Never reuse the old name, because a file or folder that has this name now is not our own.
    const folder = PrivateFolder.make()
    const lost = this.#folder?.path
    this.#folder = folder
    this.#onFolder(folder.path, lost)
    if (!(await folder.write(name, text))) throw new Error(`${folder.path} was removed right after it was created.`)
  }
}

/** The file that TENURE_FENCE_FILE names. Each renewal replaces it atomically. */
export class FenceFile {
  readonly #folder: FenceFolder
  readonly #name: string
  #lease: FencedLease | undefined
  #writing: Promise<void> | undefined

  constructor(folder: FenceFolder, name: string = fileName) {
    this.#folder = folder
    this.#name = name
  }

  /** The current path. It changes if the folder is lost. */
  get path(): string {
    return join(this.#folder.path, this.#name)
  }

  /** The environment entry of the command that gets this file, and of the processes that it starts. */
  get marker(): string {
    return `${variable}=${this.path}`
  }

  /** Resolves when the file shows this lease, or a newer one. */
  async update(lease: FencedLease): Promise<void> {
    this.#lease = lease
    // Do one write at a time, because two concurrent writes could leave the older content.
    while (this.#writing) await this.#writing.catch(() => {})
    if (this.#lease !== lease) return
    this.#writing = this.#folder.write(this.#name, () => textOf(lease))
    try {
      await this.#writing
    } finally {
      this.#writing = undefined
    }
  }
}

function textOf({ names, leftMs }: FencedLease): string {
  const writtenAtMs = wallMs()
  const leaseLeftMs = Math.floor(leftMs())
  return `${JSON.stringify({ ...names, leaseEndsAtMs: writtenAtMs + leaseLeftMs, leaseLeftMs, writtenAtMs })}\n`
}

/** Whether an environment entry names a fence file in this folder. */
export function isFenceMarker(folder: string, entry: string): boolean {
  return entry.startsWith(`${variable}=${folder}/`)
}

/** Removes the files that a {@link FenceFolder} has left in a folder. */
export function removeFences(folder: string): void {
  new PrivateFolder(folder).remove(isFenceFile)
}
