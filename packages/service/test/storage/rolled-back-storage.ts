import type { StorageHead } from '../../src/storage/storage.ts'
import { MemoryStorage } from './memory-storage.ts'

/** A storage that goes back to a copy of itself, like a server after a failover or a restored backup. */
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
