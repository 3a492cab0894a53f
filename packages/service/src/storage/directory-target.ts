import { statSync } from 'node:fs'
import { join } from 'node:path'
import { fileNames } from './data-directory.ts'
import { LmdbStorage } from './lmdb-storage.ts'
import type { MoveTarget, TargetState } from './move-storage.ts'
import type { LoadedGroup, StorageHead } from './storage.ts'

/** A directory as the target of a move. */
export class DirectoryTarget implements MoveTarget {
  readonly name: string
  readonly #directory: string
  #storage: LmdbStorage | undefined

  constructor(directory: string, name: string) {
    this.#directory = directory
    this.name = name
  }

  async state({ clusterId }: StorageHead): Promise<TargetState> {
    if (!statSync(join(this.#directory, fileNames.data), { throwIfNoEntry: false })?.size) return 'empty'
    const done = await this.#open(clusterId).catch(() => undefined)
    const found = done ?? (await this.#open(clusterId, true))
    const { clusterId: name } = await found.head()
    if (done || name !== clusterId) await found.close()
    else this.#storage = found
    if (name !== clusterId) throw new Error(`${this.#directory} contains other data. Choose a new directory.`)
    return done ? 'done' : 'begun'
  }

  async begin({ clusterId }: StorageHead): Promise<void> {
    this.#storage = await this.#open(clusterId, true)
  }

  async fill(groups: readonly LoadedGroup[]): Promise<void> {
    await this.#storage?.fill(groups)
  }

  async finish(head: StorageHead): Promise<void> {
    await this.#storage?.finish(head)
  }

  async close(): Promise<void> {
    await this.#storage?.close()
  }

  #open(clusterId: string, movingHere = false): Promise<LmdbStorage> {
    return LmdbStorage.open({ directory: this.#directory, newId: () => clusterId, movingHere })
  }
}
