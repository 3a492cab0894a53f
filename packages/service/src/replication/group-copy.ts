/**
 * A copy of all groups, read from the storage while another replica appends to it.
 *
 * It never depends on anything that another replica reports. The head, the records, and the list of the newest batches
 * come from the storage. Each listed batch names the batch that it followed and the groups that it wrote. A replica
 * that takes over may serve from the copy in place of a load because of these rules. M is the head that it swapped.
 *
 *  1. Begin. The copy reads a head H, and only then the pages of all groups. Every record that H covers is older than
 *     every page. Preserves: a record that no later batch wrote is in the copy.
 *  2. Chain. The copy advances by one batch at a time, starting at H, and only to a batch that directly follows its
 *     current batch: the seq is one higher, and the named predecessor is the current batch. Preserves: no batch between
 *     H and M is left out, and none of them belongs to a history that was lost.
 *  3. Read before advancing. The copy advances to a batch only once it has read all groups that the batch wrote, at a
 *     moment that is not before the batch. Preserves: a record that a batch after H wrote is in the copy.
 *  4. Order. Reads come one after another, and a head that precedes one already read breaks the copy. A record replaces
 *     only records with a lower seq. Preserves: 3, if a failover of the storage undoes a commit that was visible but
 *     not confirmed.
 *  5. Every moment is on the chain. The copy keeps the head of each read until it has advanced past it, and breaks if
 *     the chain has another batch there. Preserves: no record in the copy is from a commit that was undone.
 *  6. Equal heads. The copy counts as complete only if all pages were read, its current batch is M, and no read showed
 *     a later head. After the swap nobody else can append, so M is a moment that does not move. Preserves: rule 2 in
 *     replica.ts, nothing durable is unknown to the active replica.
 *  7. One count of restores. It decides which terms are skipped and which leases count as ended, so a head with another
 *     count breaks the copy. Preserves: rule 8 in replica.ts, after data loss.
 *
 * A broken copy is dropped, and the replica loads as if there had never been a copy.
 */
import { nextTurn } from '../common/clock.ts'
import { LoadedGroups, type LoadOptions } from '../groups/load-groups.ts'
import type { FollowerReads, GroupsAt, ListedBatch, StorageHead } from '../storage/storage.ts'

/** The copy is no longer usable. */
export class BrokenCopy extends Error {}

type BatchId = Pick<ListedBatch, 'seq' | 'batch'>

export class GroupCopy {
  readonly groups: LoadedGroups
  readonly #reads: FollowerReads
  readonly #restores: number
  /** The copy contains everything up to this batch, apart from pages that have not been read yet. */
  #at: BatchId
  /** The newest head that any read showed. */
  #newest: BatchId
  /** The batch ids of the heads of all reads after `#at`, by seq. */
  readonly #unproven = new Map<number, string>()
  #nextPage: string | undefined
  #isLoaded = false

  private constructor(head: StorageHead, reads: FollowerReads, options: LoadOptions) {
    this.groups = new LoadedGroups(head.restores, options)
    this.#reads = reads
    this.#restores = head.restores
    this.#at = head
    this.#newest = head
  }

  static async begin(reads: FollowerReads, options: LoadOptions): Promise<GroupCopy> {
    return new GroupCopy(await reads.head(), reads, options)
  }

  /** Whether all pages were read. */
  get isLoaded(): boolean {
    return this.#isLoaded
  }

  /** Returns whether the copy contains everything that the storage has at this head. */
  isAt({ seq, batch }: StorageHead): boolean {
    const isAt = this.#at.seq === seq && this.#at.batch === batch
    return this.#isLoaded && isAt && this.#newest.seq === seq
  }

  /** Returns whether another replica has appended after this head. */
  isBeyond({ seq, batch }: StorageHead): boolean {
    return this.#newest.seq > seq || (this.#newest.seq === seq && this.#newest.batch !== batch)
  }

  /** Reads the newest head, and all groups that were written up to it. */
  async follow(): Promise<void> {
    this.#note(await this.#reads.head())
    await this.#catchUp()
  }

  /** Reads one more page, and all groups that were written up to that moment. */
  async loadPage(): Promise<void> {
    const page = await this.#reads.page(this.#nextPage)
    await this.#add(page)
    this.#nextPage = page.next
    this.#isLoaded = page.next === undefined
    await this.#catchUp()
  }

  async #catchUp(): Promise<void> {
    const { seq: newest } = this.#newest
    while (this.#at.seq < newest) {
      const to = Math.min(this.#at.seq + this.#reads.maxRead, newest)
      const listed = await this.#reads.batches(this.#at.seq + 1, to)
      const batches = this.#chained(listed, to)
      await this.#read([...new Set(batches.flatMap(({ ids }) => ids))])
      this.#advance(batches)
    }
  }

  /** Returns the listed batches after `#at`. Throws if one is missing or does not follow its predecessor. */
  #chained(listed: ReadonlyMap<number, ListedBatch>, to: number): readonly ListedBatch[] {
    const batches: ListedBatch[] = []
    for (let last = this.#at; last.seq < to;) {
      const batch = listed.get(last.seq + 1)
      if (!batch) throw new BrokenCopy(`batch ${last.seq + 1} is not listed`)
      if (batch.after !== last.batch) throw new BrokenCopy(`batch ${batch.seq} follows another batch`)
      batches.push(batch)
      last = batch
    }
    return batches
  }

  async #read(ids: readonly string[]): Promise<void> {
    const { maxRead } = this.#reads
    for (let from = 0; from < ids.length; from += maxRead) {
      const some = ids.slice(from, from + maxRead)
      const count = await this.#add(await this.#reads.groups(some))
      if (count !== some.length) throw new BrokenCopy('a record is missing')
    }
  }

  #advance(batches: readonly ListedBatch[]): void {
    for (const batch of batches) {
      const { seq, batch: id } = batch
      if ((this.#unproven.get(seq) ?? id) !== id) throw new BrokenCopy(`batch ${seq} was undone`)
      this.#unproven.delete(seq)
      this.#at = batch
    }
  }

  /** Returns how many groups there were. */
  async #add({ head, parts }: GroupsAt): Promise<number> {
    this.#note(head)
    let count = 0
    for (const part of parts) {
      // Requests from callers of this replica come first.
      if (count > 0) await nextTurn()
      for (const group of part) this.groups.add(group)
      count += part.length
    }
    return count
  }

  #note({ seq, batch, restores }: StorageHead): void {
    if (restores !== this.#restores) throw new BrokenCopy('data was lost or restored')
    const isBefore = seq < this.#newest.seq || (seq === this.#newest.seq && batch !== this.#newest.batch)
    if (isBefore) throw new BrokenCopy(`batch ${this.#newest.seq} was undone`)
    if (seq === this.#newest.seq) return
    this.#newest = { seq, batch }
    this.#unproven.set(seq, batch)
  }
}
