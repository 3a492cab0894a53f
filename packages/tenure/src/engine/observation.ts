import type { LeaseRecord } from './lease-store.ts'

/**
 * What changed in an election.
 *
 * - `state`: the state at the first observation, or the current state after a slow reader missed changes.
 * - `elected`: a term started after the previous one had ended, or was the first.
 * - `renewed`: the term continues, even if it seemed to have expired.
 * - `released`: the lease was released, or the store has proof that its holder is gone.
 * - `expired`: the lease was observed for its whole duration without a renewal, or the store says that it expired.
 * - `replaced`: another term started, and the end of the previous one was not observed.
 * - `deleted`: the record no longer exists.
 */
export type Change = 'state' | 'elected' | 'renewed' | 'released' | 'expired' | 'replaced' | 'deleted'

/** What {@link observe} yields. */
export interface Observation {
  /** The newest record. For `expired`, the record that expired. */
  readonly record: LeaseRecord | undefined
  readonly change: Change
  /** The maximum time left of the lease, as seen from here. 0 if nobody leads. */
  readonly remainingMs: number
}

/** Where an observation comes from. */
interface Source {
  /** True for a watch event, which may describe the past. An answer to a call is authoritative. */
  readonly watched?: boolean
  /** The time left on the store's own clock. */
  readonly remainingMs?: number | undefined
}

const remembered = 16

/** Determines what changed between two observations of an election. The caller supplies the time. */
export class ChangeDetector {
  #record: LeaseRecord | undefined
  #begun = false
  /** Whether the end of the record's term has been observed. */
  #over = true
  #dueMs = Infinity
  #keys: string[] = []
  /** How many observations showed something new. */
  count = 0

  /** When the lease will have been observed for its whole duration. `Infinity` if no lease is held. */
  get dueMs(): number {
    return this.#over ? Infinity : this.#dueMs
  }

  get record(): LeaseRecord | undefined {
    return this.#record
  }

  see(record: LeaseRecord | undefined, nowMs: number, source: Source = {}): Change | undefined {
    const key = record ? `${record.version} ${record.released}` : ''
    if (this.#begun && key === this.#keys.at(-1)) return undefined
    const past = record && (this.#keys.includes(key) || record.term < (this.#record?.term ?? 0))
    if (source.watched && past) return undefined
    const change = this.#changeTo(record, nowMs)
    this.#begun = true
    this.#record = record
    this.#keys = [...this.#keys.slice(1 - remembered), key]
    this.count += 1
    this.#over = !record || record.released
    // A duration of 0 means that it is missing. Such a lease is never observed to expire.
    if (record) this.#dueMs = record.leaseDurationMs > 0 ? nowMs + lengthOf(record, source) : Infinity
    return change
  }

  /** Returns `expired` if the lease has been observed for its whole duration. */
  expire(nowMs: number): Change | undefined {
    if (nowMs < this.dueMs) return undefined
    this.#over = true
    return 'expired'
  }

  show(change: Change, nowMs: number): Observation {
    const remainingMs = Number.isFinite(this.dueMs) ? Math.max(0, this.dueMs - nowMs) : 0
    return { record: this.#record, change, remainingMs }
  }

  #changeTo(record: LeaseRecord | undefined, nowMs: number): Change | undefined {
    const before = this.#record
    if (!this.#begun) return 'state'
    if (!record) return 'deleted'
    const same = before?.term === record.term && before.holder === record.holder && before.attempt === record.attempt
    if (record.released) {
      // Each term ends only once.
      if (same && this.#over) return undefined
      return record.ranOut || (same && nowMs >= this.#dueMs) ? 'expired' : 'released'
    }
    if (same) return 'renewed'
    return this.#over ? 'elected' : 'replaced'
  }
}

function lengthOf({ leaseDurationMs }: LeaseRecord, { remainingMs = leaseDurationMs }: Source): number {
  return Math.min(leaseDurationMs, remainingMs)
}
