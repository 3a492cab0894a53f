/**
 * What the service's groups are kept in: the port below the rules. `LmdbStorage` is it for one process; a server that can
 * compare and swap can be it for several replicas, one of which is active.
 *
 * The data are the records of groups, each replaced as a whole, and one *head*. Every append names the head that it
 * follows, and the storage takes it only if that is still its head. So:
 *
 * - **One writer.** A replica that becomes active appends an empty batch whose head has a higher term. From then on every
 *   append of its predecessor is fenced, however late it arrives. It reads the records only after that.
 * - **An answer means durable.** `done` comes once the batch would survive all that the storage promises to survive: a
 *   crash, a power cut, a failover.
 * - **A rejection means unknown.** The batch may be applied, now or later, or never. `Journal`, which alone appends, one
 *   batch at a time, settles that by a further append.
 *
 * Nothing here is synchronous, and no method reads a clock to decide anything. Every call settles in bounded time. While
 * an `append` or a `check` is under way no other is called, and `load` comes before all of them.
 */

/** Where the data stand. An empty storage is opened by writing its first head, with seq 0. Two heads are the same if term, seq and batch are. */
export interface StorageHead {
  /** Of the active replica. It only rises. On a directory the lock says who is active, and it stays as it is. */
  readonly term: number
  /** How many batches were appended. */
  readonly seq: number
  /** The id of the newest batch. It tells one's own batch from another's. */
  readonly batch: string
  /** Constant for the life of the data. */
  readonly clusterId: string
  /** How often a backup was put back. Each time terms are skipped, in every group. */
  readonly restores: number
  /** Which file, or which history of a server, the data are in: a copy, or a server that lost its tail, has another. */
  readonly incarnation: string
  /** Random text that only those who may read the storage know. */
  readonly secret: string
  /** Confirmed data were lost: whoever becomes active grants nothing in any group for that long at least. */
  readonly heldMs?: number | undefined
}

/** Of the server that answers, which may have followed another. */
export interface History {
  /** Another than the head's: another server has taken the data over, or a backup was put back. */
  readonly incarnation: string
  /**
   * Whether all is there that was confirmed since the head's incarnation, as after a failover to a synchronous replica.
   * After several changes it is so only if it is so of each.
   */
  readonly isComplete: boolean
  /**
   * Set where an earlier history took the place of one that this process had seen, and nobody has made good for that: the
   * highest `restores` of a head before. Whoever takes over counts on from there.
   */
  readonly lostRestores?: number | undefined
}

/** Why nobody leads in a term any more. */
export type EndReason = 'expired' | 'resigned' | 'deleted'

/** What is kept of a group. Short names: there may be a million of them. */
export interface GroupRecord {
  /** The highest term that was ever granted. */
  readonly term: number
  /** The term of the lease below, where a higher one was tried since. */
  readonly leaseTerm?: number
  readonly node?: string
  readonly attempt?: string
  /** The start of the node, if it named one. */
  readonly instance?: string
  /** The longest duration that was promised in this term. */
  readonly ttl?: number
  readonly at?: number
  /** An object as text, which is part of the record as it is. */
  readonly meta?: string
  readonly carry?: string | undefined
  /** Nobody leads in this term any more. True in records of versions that did not note why. */
  readonly ended?: EndReason | true
  /** Although the term was ended by force, nobody may lead for that long. */
  readonly heldMs?: number
  readonly min?: number | undefined
  readonly max?: number | undefined
  readonly allowed?: readonly string[] | undefined
  /** How often a backup had been put back when this was written. */
  readonly restores?: number
  /** The subject to which the memory of the group is charged, in short. Left out: nobody. */
  readonly by?: string | undefined
  /** The group was deleted; only its term lives on. */
  readonly deleted?: boolean | undefined
}

/** The record of one group. */
export interface KeptGroup {
  readonly id: string
  readonly record: GroupRecord
}

/** A record as it was found. */
export interface FoundGroup extends KeptGroup {
  /** `seq` of the head that it was written with; 0 in data of versions that did not note it. */
  readonly seq: number
}

/** What is written together, or not at all. */
export interface Batch {
  /** The new head. `seq` is one above that of the head before, `term` not below its term. */
  readonly head: StorageHead
  /** No group twice. Empty: only the head changes. */
  readonly groups: readonly KeptGroup[]
}

/** How an {@link Storage.append} ended, where that is known. */
export type Appended = 'done' | 'fenced'

/** All data, as they were at one moment. */
export interface Loaded {
  readonly head: StorageHead
  /** Each group once, in any order. Others run between two pages. Throws where a record is missing or damaged. */
  readonly pages: AsyncIterable<readonly FoundGroup[]>
}

/** See the top of this file. */
export interface Storage {
  /** How much a batch may hold: bytes of JSON, about. */
  readonly maxBatch: { readonly groups: number; readonly bytes: number }
  /** The newest head, as a linearizable read. */
  head(): Promise<StorageHead>
  /** What answers now. Left out where it is always what the head names. */
  history?(): Promise<History>
  /**
   * - The head is `expected`: the groups and the new head are written, all in one step, and it is `done`.
   * - The head is that of the batch itself, so that it was written before: it is `done`, after another *write* that
   *   confirms it. A read would not do: a server may show rows of a commit that it has not replicated. If a failover
   *   loses them before that write, and the head is `expected` again, it rejects.
   * - Otherwise nothing is changed, and it is `fenced`.
   */
  append(expected: StorageHead, batch: Batch): Promise<Appended>
  load(): Promise<Loaded>
  /** Resolves if something could be made durable just now. */
  check(): Promise<void>
  /** Resolves when nothing is under way any more. */
  close(): Promise<void>
}

/** What {@link Storage.append} does at the head that it finds: `confirm` writes again what was written before. */
export function judgeAppend(found: StorageHead, expected: StorageHead, batch: Batch): 'write' | 'confirm' | 'fenced' {
  if (isSameHead(found, batch.head)) return 'confirm'
  return isSameHead(found, expected) ? 'write' : 'fenced'
}

/** Whether nothing was appended between two looks. */
export function isSameHead(one: StorageHead, other: StorageHead): boolean {
  return one.term === other.term && one.seq === other.seq && one.batch === other.batch
}
