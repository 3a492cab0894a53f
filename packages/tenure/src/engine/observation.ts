import type { LeaseRecord } from './lease-store.ts'
import {
  expiresAtMs,
  nothingObserved,
  observeRecord,
  pastOf,
  versionKey,
  type ObservedVersions,
} from './observed-expiry.ts'

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

/** The observations that {@link observe} yields. */
export interface Observation {
  /** The newest record. For `expired`, the record that expired. */
  readonly record: LeaseRecord | undefined
  readonly change: Change
  /** The maximum time left on the lease, as observed from this process. 0 if nobody leads. */
  readonly remainingMs: number
}

/** The source of an observation. */
interface Source {
  /** True for a watch event, which may describe the past. An answer to a call is authoritative. */
  readonly watched?: boolean
  /** The time left on the store's own clock. */
  readonly remainingMs?: number | undefined
}

/** Determines what changed between two observations of an election. The caller supplies the time. */
export class ChangeDetector {
  #versions: ObservedVersions = nothingObserved
  /** Whether the end of the record's term has been observed. */
  #over = true
  #dueMs = Infinity
  /** How many observations showed something new. */
  count = 0

  /** When the lease will have been observed for its whole duration. `Infinity` if no lease is held. */
  get dueMs(): number {
    return this.#over ? Infinity : this.#dueMs
  }

  get record(): LeaseRecord | undefined {
    return this.#versions.view?.record
  }

  see(record: LeaseRecord | undefined, nowMs: number, source: Source = {}): Change | undefined {
    const { view } = this.#versions
    if (view && keyOf(record) === keyOf(view.record)) return undefined
    // Compare only with the current record, so that a record that was deleted and recreated with a lower term is
    // still shown.
    const known = { ...this.#versions, highestTerm: this.record?.term ?? 0 }
    const { watched = false, remainingMs = Infinity } = source
    if (watched && record && pastOf(known, record)) return undefined
    const change = this.#changeTo(record, nowMs)
    // A lease without a duration is never observed to expire.
    this.#versions = observeRecord(known, { record, watched, nowMs, ownDurationMs: Infinity })
    this.count += 1
    this.#over = !record || record.released
    const dueMs = this.#versions.view ? expiresAtMs(this.#versions.view) : Infinity
    if (record) this.#dueMs = dueMs === Infinity ? Infinity : Math.min(dueMs, nowMs + remainingMs)
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
    return { record: this.record, change, remainingMs }
  }

  #changeTo(record: LeaseRecord | undefined, nowMs: number): Change | undefined {
    const before = this.record
    if (!this.#versions.view) return 'state'
    if (!record) return 'deleted'
    const same = before?.term === record.term && before.holder === record.holder && before.attempt === record.attempt
    if (record.released) {
      // Each term ends only once.
      if (same && this.#over) return undefined
      return record.expired || (same && nowMs >= this.#dueMs) ? 'expired' : 'released'
    }
    if (same) return 'renewed'
    return this.#over ? 'elected' : 'replaced'
  }
}

function keyOf(record: LeaseRecord | undefined): string | undefined {
  return record && versionKey(record)
}
