import type { LeaseRecord } from './lease-store.ts'

/**
 * What became of an election.
 *
 * - `state`: how it stood at first sight; or how it stands after more has happened than a slow reader could take.
 * - `elected`: a term began after the one before had ended, or was the first.
 * - `renewed`: the term goes on, even if it had seemed to have run out.
 * - `released`: the lease was given back, or the store has proof that its holder is gone.
 * - `expired`: the lease was seen for its whole duration without a renewal, or the store says that it ran out.
 * - `replaced`: another term began, and nothing had shown the end of the one before.
 * - `deleted`: the record is gone.
 */
export type Change = 'state' | 'elected' | 'renewed' | 'released' | 'expired' | 'replaced' | 'deleted'

/** What {@link observe} shows. */
export interface Observation {
  /** The newest record. Of an `expired` term, the record that ran out. */
  readonly record: LeaseRecord | undefined
  readonly change: Change
  /** What is left of the lease at most, as seen from here; 0 if nobody leads. */
  readonly remainingMs: number
}

/** Where a sight comes from. */
interface Source {
  /** An event may tell of the past; an answer to a question is the store's word. */
  readonly watched?: boolean
  /** What is left on the store's own clock. */
  readonly remainingMs?: number | undefined
}

const remembered = 16

/** Tells what changed from one sight of an election to the next. Time comes from outside. */
export class Sights {
  #record: LeaseRecord | undefined
  #begun = false
  /** Whether the term of the record has been seen to end. */
  #over = true
  #dueMs = Infinity
  #keys: string[] = []
  /** How many sights brought something new. */
  count = 0

  /** When the lease will have been seen for its whole duration; `Infinity` if none runs. */
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
    // A duration of 0 is a missing one: such a lease is not seen to run out.
    if (record) this.#dueMs = record.leaseDurationMs > 0 ? nowMs + lengthOf(record, source) : Infinity
    return change
  }

  /** The lease has been seen for its whole duration, if that is so. */
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
      // Each term ends once.
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
