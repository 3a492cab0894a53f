import type { HeadChanges } from '../storage/appender.ts'
import type { Position } from '../storage/position.ts'
import type { History, StorageHead } from '../storage/storage.ts'

/**
 * How far ahead a reported `restores` may be and still be believed. Each data loss and each restored backup adds one to
 * `restores`, and a replica that is cut off can miss only a few of these increases.
 */
const maxMissedRestores = 1_000

type KnownHead = Omit<Position, 'index'> & Partial<Pick<StorageHead, 'batch'>>

/**
 * What a replica knows to be confirmed, so that it notices a storage that has lost confirmed writes.
 *
 * A storage that loses confirmed writes breaks its promise, and no order of calls can repair that. Without this class:
 *
 * ```
 * t0  active replica A grants term 7 of a group for 10 s, and answers: the append was confirmed
 * t1  the server fails over to a copy that never got it, or a backup is restored: term 6, ended
 * t2  replica B takes over, loads, and finds the group free: it grants term 7 again, while A's client still holds it
 * ```
 *
 * With this class, B notices the loss when it swaps the head:
 *
 * ```
 * t2  B finds one of: a head that is neither the last one it knows nor a later one; a different incarnation of the
 *     server that does not vouch for what the previous one confirmed; an etcd whose revision is lower than one seen
 *     before. B swaps the head to its own term with `restores + 1` and `heldMs`
 * t3  B loads. Every group continues a million terms higher, so that no term is granted twice. Leases that B finds
 *     count as ended, because later terms may have been granted. B grants nothing in any group, not even in an unknown
 *     one
 * t4  the longest lease that A can have promised has expired: B grants again. The next append drops `heldMs`
 * ```
 *
 * After a failover between t2 and t4, any new active replica finds `heldMs` in the head and starts the hold again. The
 * hold uses the longest lease that the policies allow: the records of A's promises may be lost, but A obeyed the
 * policies. Only a group's own definition can allow more than the service's policy, so the hold lasts as long as the
 * longest definition found.
 *
 * A replica knows what it appended itself, and what the active replica reported to it as a follower, which was durable
 * before it was reported. What it only read, such as the head at its start, proves nothing.
 *
 * Two cases are not covered. One is a loss that neither the server nor this replica can detect, because later appends
 * have moved the head past the last one that this replica knows. The other is a lost definition that allowed longer
 * leases than any definition found.
 */
export class ConfirmedHead {
  readonly #restores: number
  #known: KnownHead | undefined

  /** `restores` is the value in the head when this replica started. */
  constructor(restores: number) {
    this.#restores = restores
  }

  /**
   * Records the head of a completed append. Do not pass a head that was only read: that commit may not be replicated
   * yet, and its disappearance would not be a loss.
   */
  note(head: StorageHead): void {
    this.#learn(head)
  }

  /**
   * Records the position of a change that the active replica reported. The id of its batch is not known here. A faulty
   * replica may report anything. A wrong term or seq costs one hold. But `restores` is counted up from this number and
   * decides how many terms are skipped, so an impossible number would use up all terms permanently.
   */
  noteConfirmed({ restores, term, seq }: Position): void {
    const knownRestores = Math.max(this.#restores, this.#known?.restores ?? 0)
    if (restores <= knownRestores + maxMissedRestores) this.#learn({ restores, term, seq })
  }

  #learn(known: KnownHead): void {
    if (!this.#known || isLater(known, this.#known)) this.#known = known
  }

  /** Returns the changes that data loss requires in the new head. Without a loss, returns only the incarnation. */
  changesOn(found: StorageHead, history: History | undefined, longestMs: number): HeadChanges {
    const incarnation = history?.incarnation ?? found.incarnation
    const isAnother = found.incarnation !== '' && incarnation !== found.incarnation
    const lostRestores = history?.lostRestores
    const lacks = this.#lacks(found) || (isAnother && !history?.isComplete) || lostRestores !== undefined
    if (!lacks) return { incarnation }
    const restores = Math.max(found.restores, this.#known?.restores ?? 0, lostRestores ?? 0) + 1
    return { incarnation, restores, heldMs: Math.max(longestMs, found.heldMs ?? 0) }
  }

  #lacks(found: StorageHead): boolean {
    const known = this.#known
    if (!known || isSame(known, found)) return false
    // Terms never decrease, and `restores` is increased by a replica that notices a loss or by an operator who restores
    // a backup.
    return !(isLater(found, known) && (found.term >= known.term || found.restores > known.restores))
  }
}

function isSame({ restores, term, seq, batch = '' }: KnownHead, found: StorageHead): boolean {
  const isThere = restores === found.restores && term === found.term && seq === found.seq
  return isThere && (batch === '' || batch === found.batch)
}

function isLater(one: KnownHead, other: KnownHead): boolean {
  return one.restores === other.restores ? one.seq > other.seq : one.restores > other.restores
}
