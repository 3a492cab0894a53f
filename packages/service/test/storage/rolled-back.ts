import type { StorageHead } from '../../src/storage/storage.ts'
import { MemoryStorage } from './memory-storage.ts'

/** Goes back to a copy of itself, as a server does that fails over to one, or that a backup is put back on. */
export class RolledBack extends MemoryStorage {
  #copy: { readonly stored: StorageHead; readonly groups: MemoryStorage['groups'] } | undefined

  copy(): void {
    this.#copy = { stored: this.stored, groups: new Map(this.groups) }
  }

  rollBack(): void {
    if (!this.#copy) return
    this.stored = this.#copy.stored
    this.groups = this.#copy.groups
  }
}
