/** Checks each transition, and counts what occurred over all transitions. */
import { isSameHead, type StoredGroup, type StorageHead } from '../../../src/storage/storage.ts'
import type { AppenderFault, Kept, ActiveTerm, Scene, Setup, Swap } from './scene.ts'

/** The coverage of the model checker. */
export interface AppenderCounts {
  /** Writes and swaps of the head that were reported as durable. */
  done: number
  /** Appends without an answer. */
  unknown: number
  /** Replicas that another one has fenced. */
  fenced: number
  /** Batches that replace records of failed writers. */
  replaced: number
  readonly faults: { [Kind in AppenderFault]?: number }
}

export function noCounts(): AppenderCounts {
  return { done: 0, unknown: 0, fenced: 0, replaced: 0, faults: {} }
}

/** Checks one transition. */
export class Course {
  violation: string | undefined
  readonly setup: Setup
  readonly counts: AppenderCounts

  constructor(setup: Setup, counts: AppenderCounts) {
    this.setup = setup
    this.counts = counts
  }

  #violate(rule: string, what: string): void {
    this.violation ??= `${rule}: ${what}`
  }

  fault(kind: AppenderFault): void {
    this.counts.faults[kind] = (this.counts.faults[kind] ?? 0) + 1
  }

  /** W1: all loaded records are durable. */
  loads({ shown, confirmed }: Scene, { term }: ActiveTerm): void {
    if (shown !== confirmed) this.#violate('W1', `term ${term} loads records that a failover loses`)
  }

  /** W1: a record that was reported as written is stored, or was replaced by a later one. */
  done({ confirmed }: Scene, groups: readonly StoredGroup[], { seq }: StorageHead): void {
    this.counts.done += 1
    for (const { id, record } of groups) {
      const entry = confirmed.groups[Number(id)]
      if (entry?.value === record.term || (entry && entry.seq > seq)) continue
      this.#violate('W1', `a record of group ${id} was confirmed to its writer, but a failover loses it`)
    }
  }

  /** W2: no replica before the newest one that has loaded can append a batch. */
  takes({ shown, loadedTerm }: Scene, { head }: Swap): void {
    if (head.term < loadedTerm) this.#violate('W2', `term ${head.term} writes after term ${loadedTerm} has loaded`)
    if (head.term < shown.head.term) this.#violate('W2', `term ${head.term} writes after term ${shown.head.term}`)
    if (head.seq !== shown.head.seq + 1) this.#violate('W2', `batch ${head.seq} follows batch ${shown.head.seq}`)
  }

  /** W3: a confirmed record stays until a later one replaces it. */
  confirms(before: Kept, after: Kept): void {
    const [was, is] = [before.head, after.head]
    if (is.term < was.term || is.seq < was.seq) this.#violate('W3', 'the confirmed head goes back')
    for (const [group, entry] of before.groups.entries()) {
      const now = after.groups[group]
      if (now && (now.seq > entry.seq || now.value === entry.value)) continue
      this.#violate('W3', `group ${group} loses a confirmed record`)
    }
  }

  /**
   * W4: one append at a time, and none after the end.
   *
   * W5: before a write, the storage has the same records as memory. So a record whose writer failed was replaced, and
   * all earlier writes of others were loaded. While such records are being replaced, this holds for all other groups.
   */
  sends({ shown }: Scene, activeTerm: ActiveTerm, isAsked: boolean, wasOver: boolean): void {
    const { term, flight, appender, memory, phase } = activeTerm
    if (flight) this.#violate('W4', `term ${term} has two appends in flight`)
    if (wasOver) this.#violate('W4', `term ${term} appends after its end`)
    if (!appender || phase !== 'serving' || appender.open?.stage !== 'sent') return
    if (!isAsked) this.counts.replaced += 1
    if (!isSameHead(shown.head, appender.head)) return
    for (const [group, { value }] of shown.groups.entries()) {
      const mayDiffer = !isAsked && appender.unconfirmed.includes(String(group))
      if (value !== memory[group] && !mayDiffer) {
        this.#violate('W5', `term ${term} writes although it does not know the record of group ${group}`)
      }
    }
  }

  /**
   * W6: no replica is fenced by its own writes or by a failover. One case is allowed: where a failover can lose visible
   * batches, an earlier batch of the replica may arrive late, on top of the head that the failover restored.
   */
  fences({ shown }: Scene, { term, appender }: ActiveTerm): void {
    const { faults, budget } = this.setup
    if (appender?.open?.stage === 'instead' || shown.head.term !== term) return
    const isLate = budget > 1 && (faults.has('late') || faults.has('doubled'))
    if (faults.has('cancelled') && isLate) return
    this.#violate('W6', `term ${term} is fenced although nobody else has written`)
  }
}
