/**
 * The port for the storage of groups, below the rules. `LmdbStorage` implements it for one process. A server that can
 * compare and swap can implement it for several replicas, one of which is active.
 *
 * The data consists of group records, each replaced as a whole, and one *head*. Every append names the head that it
 * follows, and the storage accepts it only if that is still its head. So:
 *
 * - **One writer.** A replica that becomes active appends an empty batch whose head has a higher term. From then on
 *   every append of its predecessor is fenced, however late it arrives. It reads the records only after that.
 * - **An answer means durable.** `done` comes once the batch would survive everything that the storage promises to
 *   survive: a crash, a power cut, a failover.
 * - **A rejection means unknown.** The batch may be applied now, later, or never. `Journal`, the only component that
 *   appends, settles the outcome with a further append. It appends one batch at a time.
 *
 * All methods are asynchronous, and none reads a clock to decide anything. Every call settles in bounded time. While an
 * `append` or a `check` is in flight no other is called, and `load` comes before all of them.
 */

/**
 * The state of the data as a whole. Opening an empty storage writes its first head, with seq 0. Two heads are the same
 * if their term, seq, and batch are the same.
 */
export interface StorageHead {
  /**
   * The term of the active replica. It never decreases. In a directory, the lock decides which process is active, and
   * the term stays the same.
   */
  readonly term: number
  /** How many batches were appended. */
  readonly seq: number
  /** The id of the newest batch. It distinguishes a replica's own batch from another's. */
  readonly batch: string
  /** Constant for the life of the data. */
  readonly clusterId: string
  /** How many times a backup was restored. Each restore skips terms in every group. */
  readonly restores: number
  /**
   * Identifies the file, or the history of a server, that holds the data. A copy has a different incarnation, and so
   * does a server after data loss.
   */
  readonly incarnation: string
  /** Random text, known only to those who may read the storage. */
  readonly secret: string
  /**
   * How long, at least, a replica that becomes active grants nothing in any group, because confirmed data was lost.
   * Undefined if nothing is held.
   */
  readonly heldMs?: number | undefined
}

/** The history of the server that answers, which may have replaced another server. */
export interface History {
  /**
   * Identifies the server and its data. If this differs from the head's incarnation, another server has taken over the
   * data, or a backup was restored.
   */
  readonly incarnation: string
  /**
   * Whether the server has everything that was confirmed since the head's incarnation, as after a failover to a
   * synchronous replica. After several changes of the incarnation, this must hold for each of them.
   */
  readonly isComplete: boolean
  /**
   * The highest `restores` of an earlier head. Set if an earlier history replaced one that this process had seen, and
   * no head accounts for that yet. The replica that takes over counts up from there.
   */
  readonly lostRestores?: number | undefined
}

/** Why a term ended. */
export type EndReason = 'expired' | 'resigned' | 'deleted'

/** The stored record of a group. Names are short because there may be a million records. */
export interface GroupRecord {
  /** The highest term that was ever granted. */
  readonly term: number
  /** The term of the lease below, if a higher term has been tried since. */
  readonly leaseTerm?: number
  readonly node?: string
  readonly attempt?: string
  /** The id of the node's start, if it named one. */
  readonly instance?: string
  /** The longest duration that was promised in this term. */
  readonly ttl?: number
  readonly at?: number
  /** A JSON object as text. It is embedded in the record unchanged. */
  readonly meta?: string
  readonly checkpoint?: string | undefined
  /** Why this term ended. True if a restore ended it, because its end may be lost. Undefined while the term lasts. */
  readonly ended?: EndReason | true
  /** The node that should lead next, if the term was ended and that node was named. */
  readonly successor?: string | undefined
  /** How long nobody may lead, although the term was ended by force. */
  readonly heldMs?: number
  readonly min?: number | undefined
  readonly max?: number | undefined
  readonly allowed?: readonly string[] | undefined
  /** How many times a backup had been restored when this record was written. */
  readonly restores?: number
  /** The subject that is charged for the group's memory, in short form. Undefined if no subject is charged. */
  readonly by?: string | undefined
  /** The group was deleted, and only its term is kept. */
  readonly deleted?: boolean | undefined
}

/** The record of one group. */
export interface StoredGroup {
  readonly id: string
  readonly record: GroupRecord
}

/** A record that was read from the storage. */
export interface LoadedGroup extends StoredGroup {
  /** The `seq` of the head that the record was written with. */
  readonly seq: number
}

/** A set of writes that is applied as a whole or not applied. */
export interface Batch {
  /** The new head. Its `seq` is one above the previous head's, and its `term` is not below the previous term. */
  readonly head: StorageHead
  /** Each group at most once. If empty, only the head changes. */
  readonly groups: readonly StoredGroup[]
}

/** The outcome of {@link Storage.append}, if it is known. */
export type Appended = 'done' | 'fenced'

/** All data, as of one moment. */
export interface Loaded {
  readonly head: StorageHead
  /** Each group once, in any order. Other callbacks run between pages. Throws if a record is missing or damaged. */
  readonly pages: AsyncIterable<readonly LoadedGroup[]>
}

/** The groups that one batch wrote, in the list of the newest batches. */
export interface ListedBatch {
  readonly seq: number
  readonly batch: string
  /** The id of the batch that this one followed. */
  readonly after: string
  /** The ids of the groups that this batch wrote. */
  readonly ids: readonly string[]
}

/** Groups, and the head at the moment when they were read. */
export interface GroupsAt {
  readonly head: StorageHead
  /** In parts, each of which is decoded when it is taken, so that other callbacks can run in between. */
  readonly parts: Iterable<readonly LoadedGroup[]>
}

/** A page of groups. */
export interface GroupsPage extends GroupsAt {
  /** Where the next page begins. Undefined on the last page. */
  readonly next: string | undefined
}

/**
 * Reads that a follower may make while another replica appends. Each shows one moment of the storage, and later reads
 * show later moments. Once written, a record exists at every later moment. All reads are linearizable.
 */
export interface FollowerReads {
  head(): Promise<StorageHead>
  /** Reads a page of all groups. `from` is the `next` of the previous page. */
  page(from: string | undefined): Promise<GroupsPage>
  /** How many groups or batches can be read at once. */
  readonly maxRead: number
  /** Reads the records of these groups. */
  groups(ids: readonly string[]): Promise<GroupsAt>
  /** Returns the batches from `from` to `to` that are listed, by `seq`. */
  batches(from: number, to: number): Promise<ReadonlyMap<number, ListedBatch>>
}

/** See the top of this file. */
export interface Storage {
  /** The limits of a batch: groups, and approximate bytes of JSON. */
  readonly maxBatch: { readonly groups: number; readonly bytes: number }
  /** Reads the newest head. The read is linearizable. */
  head(): Promise<StorageHead>
  /** Returns the history of the server that answers now. Undefined if it always equals the head's incarnation. */
  history?(): Promise<History>
  /**
   * - If the head is `expected`: the groups and the new head are written in one step, and the result is `done`.
   * - If the head is that of the batch itself, the batch was written before. The result is `done`, after another
   *   *write* that confirms it. A read would not be enough, because a server may show rows of a commit that it has not
   *   replicated. If a failover loses them before that write, and the head is `expected` again, the call rejects.
   * - Otherwise nothing changes, and the result is `fenced`.
   */
  append(expected: StorageHead, batch: Batch): Promise<Appended>
  load(): Promise<Loaded>
  /** Undefined if only one process can open the storage. */
  readonly follower?: FollowerReads | undefined
  /** Resolves if a write could be made durable just now. */
  check(): Promise<void>
  /** Resolves once nothing is in flight. */
  close(): Promise<void>
}

/** Returns the action of {@link Storage.append} for the head that it finds. `confirm` repeats the earlier write. */
export function judgeAppend(found: StorageHead, expected: StorageHead, batch: Batch): 'write' | 'confirm' | 'fenced' {
  if (isSameHead(found, batch.head)) return 'confirm'
  return isSameHead(found, expected) ? 'write' : 'fenced'
}

/** Returns whether nothing was appended between two reads of the head. */
export function isSameHead(one: StorageHead, other: StorageHead): boolean {
  return one.term === other.term && one.seq === other.seq && one.batch === other.batch
}
