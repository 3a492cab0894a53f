import type { Batch, FollowerReads, GroupsAt, ListedBatch, LoadedGroup } from '../../src/storage/storage.ts'
import { RolledBack } from './rolled-back-storage.ts'

const pageGroups = 2

/** A storage in memory that lists its batches, and whose reads a test can interrupt. */
export class FollowedStorage extends RolledBack {
  /** Called before each read takes effect, with its name. */
  beforeRead: ((read: keyof FollowerReads) => void | Promise<void>) | undefined
  /** How many batches are listed. */
  listedBatches = Infinity
  #batches = new Map<number, ListedBatch>()
  #copied: ReadonlyMap<number, ListedBatch> = new Map()

  readonly follower: FollowerReads = {
    maxRead: 3,
    head: async () => {
      await this.beforeRead?.('head')
      return this.stored
    },
    page: async (from) => {
      await this.beforeRead?.('page')
      const begin = Number(from ?? 0)
      const all = [...this.groups.values()].toSorted((one, other) => (one.id < other.id ? -1 : 1))
      const end = begin + pageGroups
      return { ...this.#at(all.slice(begin, end)), next: end < all.length ? String(end) : undefined }
    },
    groups: async (ids) => {
      await this.beforeRead?.('groups')
      return this.#at(ids.flatMap((id) => this.groups.get(id) ?? []))
    },
    batches: async (from, to) => {
      await this.beforeRead?.('batches')
      const isAsked = (seq: number) => seq >= from && seq <= to && seq > this.stored.seq - this.listedBatches
      return new Map([...this.#batches].filter(([seq]) => isAsked(seq)))
    },
  }

  override copy(): void {
    super.copy()
    this.#copied = new Map(this.#batches)
  }

  override rollBack(): void {
    super.rollBack()
    this.#batches = new Map(this.#copied)
  }

  protected override put(batch: Batch): void {
    const { seq, batch: id } = batch.head
    this.#batches.set(seq, { seq, batch: id, after: this.stored.batch, ids: batch.groups.map((group) => group.id) })
    super.put(batch)
  }

  #at(groups: readonly LoadedGroup[]): GroupsAt {
    return { head: this.stored, parts: [groups] }
  }
}
