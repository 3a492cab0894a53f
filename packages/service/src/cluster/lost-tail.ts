import type { HeadChanges } from '../storage/appender.ts'
import type { Position } from '../storage/position.ts'
import type { History, StorageHead } from '../storage/storage.ts'

/** Each loss, and each backup that is put back, counts one. A replica misses a few of them while it is cut off. */
const mostMissed = 1_000

type Known = Omit<Position, 'index'> & Partial<Pick<StorageHead, 'batch'>>

/**
 * What a replica knows to be confirmed, to notice a storage that has lost it.
 *
 * A storage that loses what it confirmed breaks its promise, and no order of calls makes that good. What it would do:
 *
 * ```
 * t0  active A grants term 7 of a group for 10 s, and answers: the append was confirmed
 * t1  the server fails over to a copy that never got it, or a backup is put back: term 6, ended
 * t2  replica B takes over, loads, and finds the group free: it grants term 7 again, beside its holder
 * ```
 *
 * What is done instead, when the swap of the head shows it:
 *
 * ```
 * t2  B finds a head that is neither the last that it knows nor one after it, or another incarnation of the server that
 *     does not vouch for what the one before confirmed, or an etcd whose revision is lower than one that was seen. It swaps
 *     the head to its own term with `restores + 1` and `heldMs`
 * t3  B loads. Every group counts on from a million terms higher, so that no term is granted twice. Leases that were found
 *     have ended, because later terms may have been granted. In no group, even one that nobody knows, is anything granted
 * t4  the longest lease that A can have promised has run out: B grants again. The next append drops `heldMs`
 * ```
 *
 * A failover between t2 and t4 finds `heldMs` in the head, and begins the hold again, whoever takes over. The longest
 * lease is that of the policies: what A has promised may be lost with its records, but A kept to the policies. Only a
 * group's own definition can allow more than the service's, and the hold is as long as the longest that was found.
 *
 * A replica knows what it appended itself, and what the active one told it as a follower: that was durable before it was
 * told. What it only read, as the head at its start, is no proof.
 *
 * Not covered: a loss of which neither the server nor this replica knows anything, where the head that is found has been
 * appended to beyond the last one that this replica knows; and a definition in the lost tail that allowed longer leases
 * than any that was found.
 */
export class ConfirmedHead {
  readonly #restores: number
  #known: Known | undefined

  /** `restores` is that of the head when this replica began. */
  constructor(restores: number) {
    this.#restores = restores
  }

  /** Of an append that is done. One that was only read may be of a commit that is not replicated yet, and is no loss. */
  note(head: StorageHead): void {
    this.#learn(head)
  }

  /**
   * Of a change that the active replica told of. Its batch has no id here. One that has a mistake in it may tell anything.
   * A wrong term or seq costs one hold. But `restores` is counted on from here, and terms are skipped by it: a number that
   * cannot be true would use up all terms for ever.
   */
  heard({ restores, term, seq }: Position): void {
    const knownRestores = Math.max(this.#restores, this.#known?.restores ?? 0)
    if (restores <= knownRestores + mostMissed) this.#learn({ restores, term, seq })
  }

  #learn(known: Known): void {
    if (!this.#known || isLater(known, this.#known)) this.#known = known
  }

  /** What the new head must say because of what was lost. Nothing in all other cases. */
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
    // Terms never fall, and somebody who noticed a loss, or put a backup back, has said so.
    return !(isLater(found, known) && (found.term >= known.term || found.restores > known.restores))
  }
}

function isSame({ restores, term, seq, batch = '' }: Known, found: StorageHead): boolean {
  const isThere = restores === found.restores && term === found.term && seq === found.seq
  return isThere && (batch === '' || batch === found.batch)
}

function isLater(one: Known, other: Known): boolean {
  return one.restores === other.restores ? one.seq > other.seq : one.restores > other.restores
}
