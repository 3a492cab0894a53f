/**
 * The port: what the engine requires of a store. Together with `election.ts` this is the whole safety argument.
 *
 * A store keeps one record per election. It promises:
 *
 * - Every call is linearizable per election. A call that throws, or whose signal aborts, may have been applied, may
 *   be applied later, or never. The engine handles all three.
 * - A grant has a term above every term granted before, and terms are never reused.
 * - `renew` and `release` change a record only if holder, attempt, term, and version all match at that moment.
 * - Every write gives the record a version that no earlier write had.
 * - A refused call writes nothing. Before the store answers, a grant and a checkpoint are as durable as the store can
 *   make them.
 * - Names, metadata, and `carry` are returned exactly as they were given, and no two elections share a record.
 *
 * `storeConformance` of `tenure/conformance` tests these requirements.
 */

/** A JSON value, as it may occur in {@link Metadata}. */
export type JsonValue = string | number | boolean | null | readonly JsonValue[] | { readonly [key: string]: JsonValue }

/**
 * What a candidate publishes about itself. Others see it in the record while it leads.
 *
 * @example
 * const metadata: Metadata = { zone: 'az-a', version: '1.4.2' }
 */
export type Metadata = { readonly [key: string]: JsonValue }

/**
 * What a store keeps for one election. A released record stays, so that its term and its checkpoint are preserved.
 *
 * @example
 * const record = elector.leader()
 * if (record && !record.released) console.log(`${record.holder} leads term ${record.term}`)
 */
export interface LeaseRecord {
  readonly election: string
  /** Identity of the candidate that was granted `term`. */
  readonly holder: string
  /** Unique to the acquire call that was granted. No two grants share one, even if they are of the same process. */
  readonly attempt: string
  /** The fencing token: a safe integer that rises with every grant. The first is at least 1. */
  readonly term: number
  readonly leaseDurationMs: number
  /** Wall clock of the process that wrote it, in Unix milliseconds. For people only: no decision reads it. */
  readonly acquiredAt: number
  /** Like `acquiredAt`, for the newest renewal. */
  readonly renewedAt: number
  /** True if nobody holds the lease: it was released, or the store has proof that its holder is gone. */
  readonly released: boolean
  readonly metadata: Metadata
  /** The checkpoint: a small text that survives handovers. Only the leader sets it. Initially empty. */
  readonly carry: string
  /** Opaque text, never empty; compared by equality. Differs after every write, even after a removal in between. */
  readonly version: string
  /**
   * The write id: the `mark` of the claim that wrote this version, unchanged. It makes the text of every write differ,
   * so that a version may be a hash of the text. It also lets a holder distinguish its own writes from those of a clone
   * of its process. Undefined in records from releases without write ids.
   */
  readonly mark?: string | undefined
  /**
   * Only in a released record: the store knows that the lease expired and was not released by its holder. For people.
   */
  readonly ranOut?: boolean | undefined
}

/** The result of {@link LeaseStore.look}. */
export interface Look {
  readonly record: LeaseRecord | undefined
  /** The time left on the store's own clock. 0 if the lease is over, undefined if the store cannot judge it. */
  readonly remainingMs: number | undefined
}

/**
 * A request for leadership.
 *
 * `afterTerm` is the highest term the candidate has seen. A store refuses the claim if a higher term was ever granted,
 * so that a delayed claim can never succeed after a grant that its sender did not know about. A granted term is above
 * `afterTerm`.
 */
export interface AcquireClaim {
  readonly election: string
  readonly holder: string
  readonly attempt: string
  readonly leaseDurationMs: number
  readonly afterTerm: number
  /**
   * The version whose lease the candidate has watched expire, or {@link absentVersion} if the record had been deleted
   * and the candidate has waited since. The store compares and swaps on exactly this version.
   */
  readonly expiredVersion?: string
  readonly metadata: Metadata
  /** The write id to keep in the record; see {@link LeaseRecord.mark}. The engine always sets it. */
  readonly mark?: string | undefined
}

/** The version of a record that does not exist. */
export const absentVersion = ''

/** Identifies one grant, and the version of the record last seen for it. */
export interface HeldClaim {
  readonly election: string
  readonly holder: string
  readonly attempt: string
  readonly term: number
  readonly version: string
  readonly leaseDurationMs: number
  /** Only for `renew`: replaces the record's checkpoint. Without it, the checkpoint stays as it is. */
  readonly carry?: string
  /** The write id to keep in the record; see {@link LeaseRecord.mark}. The engine always sets it. */
  readonly mark?: string | undefined
}

/** Limits a call. A store stops waiting when `signal` aborts, but what it had already sent may still be applied. */
export interface CallOptions {
  readonly signal: AbortSignal
  /** The time after which the signal aborts, for clients with their own timeout. Undefined for watches. */
  readonly timeoutMs?: number | undefined
}

/** Options of a watch. */
export interface WatchOptions extends CallOptions {
  /**
   * The candidate that waits for its turn. A store that lists candidates includes it while the watch is open. Undefined
   * if the watcher is only an observer.
   */
  readonly holder?: string | undefined
}

/**
 * The store did what was asked. `validForMs` is how long the grant really lasts: above 0, and never above the claim's
 * `leaseDurationMs` or the record's. This also holds if an attempt is repeated with a shorter duration, and for a store
 * that rounds durations up: the holder counts `validForMs` from the moment of sending.
 */
export interface Granted {
  readonly ok: true
  readonly record: LeaseRecord
  readonly validForMs: number
}

/**
 * The store refused the call, for certain, and wrote nothing. `record` is the current record, if there is one and the
 * store can read it. `highestTerm` is the highest term ever granted, at least the record's. The candidate learns it
 * here. `retryAfterMs` is how long the blocking lease still lasts, never more than that. It is set only if the store
 * knows.
 */
export interface Refused {
  readonly ok: false
  readonly record?: LeaseRecord
  readonly highestTerm: number
  readonly retryAfterMs?: number
}

/**
 * Identifies a released record to delete.
 *
 * @example
 * const record = await store.read('import-2026', call)
 * if (record?.released) await store.forget?.({ election: 'import-2026', version: record.version }, call)
 */
export interface ForgetClaim {
  readonly election: string
  /** The version of the released record, as it was read. */
  readonly version: string
  /**
   * Also deletes the highest term. Terms then start again at 1, and a resource that has seen a higher one refuses the
   * next leaders. Default: false.
   */
  readonly withTerm?: boolean | undefined
}

/** The answer to {@link LeaseStore.forget}. */
export type Forgotten = { readonly ok: true } | Refused

/** The answer of a store. An answer is definite. Everything uncertain is a rejected promise. */
export type Outcome = Granted | Refused

/** Which page of a listing to return. */
export interface ListOptions {
  /** The `next` of the previous page. Undefined for the first page. */
  readonly after?: string | undefined
  /** The maximum number of records in the page, up to 1000. Default: 100. */
  readonly limit?: number | undefined
}

/** One page of the elections that a store has a record of. The store chooses the order. */
export interface ListPage {
  /** Includes released records. A page may have fewer records than requested, or none, even if more pages follow. */
  readonly records: readonly LeaseRecord[]
  /** Opaque: where the next page starts. Undefined on the last page. */
  readonly next?: string | undefined
  /** One sentence for each entry that could not be read as a record. */
  readonly problems?: readonly string[] | undefined
}

/**
 * A store of leases.
 *
 * @example
 * const store: LeaseStore = memoryStore()
 * const record = await store.read('payments', { signal: AbortSignal.timeout(1_000) })
 */
export interface LeaseStore {
  /**
   * Who decides that a lease has expired. `own-clock`: the store, on a clock that cannot step. `observed`: the
   * candidates, each by watching one version of the record for its whole duration.
   */
  readonly expiry: 'own-clock' | 'observed'
  /** Whether terms are durable. Without them there is no fencing, and `lead` refuses the store. */
  readonly terms: boolean
  /**
   * Where this store keeps its leases, if there are several such places whose elections may have the same names.
   * Events, call reports, and explanations show it next to the election's name.
   */
  readonly namespace?: string
  /** Returns the record, even if it is released, or undefined if there is none. */
  read(election: string, options: CallOptions): Promise<LeaseRecord | undefined>
  /**
   * Repeating the record's own attempt, with the same holder, returns the same grant again while it is current: the
   * same term, the newest version, nothing written, nothing extended. The same attempt under another holder, or after
   * its grant was released or expired, is refused: one attempt belongs to one grant forever. Another attempt of the
   * same holder is treated like that of any other candidate.
   *
   * Any other attempt is granted a new term if no term above `afterTerm` was ever granted and the record was never
   * written, is released, has expired on the store's clock, or (for a store that cannot judge it) is at
   * `expiredVersion`. A store that judges expiry itself frees nothing because of `expiredVersion`.
   *
   * A record that was deleted without a release counts as held. It counts as never written only if `afterTerm` is 0 and
   * the claim has no `expiredVersion`: if a candidate has seen a term and finds no record, the record was deleted. A
   * store that judges expiry keeps the lease of a deleted record until it would have expired. Where the candidates
   * judge expiry, only a claim with `expiredVersion` {@link absentVersion} can replace it. The highest term outlives
   * the record wherever the store allows it.
   *
   * Terms end at the last safe integer, or at the last one that the store can write exactly. After that nothing is
   * granted: a claim with that `afterTerm` is refused, or rejects with `TERM_EXHAUSTED`.
   */
  acquire(claim: AcquireClaim, options: CallOptions): Promise<Outcome>
  /**
   * Restarts the lease's duration, if holder, attempt, term, and version match. The lease then lasts as long as this
   * claim asks for. A store may keep a longer duration that it has promised for the same term. A store that judges
   * expiry refuses after the lease has expired. Only the duration, `renewedAt`, the write id, the version, and, if
   * given, `carry` change. Nothing restores a deleted record.
   */
  renew(claim: HeldClaim, options: CallOptions): Promise<Outcome>
  /**
   * Releases the lease, if holder, attempt, term, and version match. The record stays, with its term and its
   * checkpoint.
   */
  release(claim: HeldClaim, options: CallOptions): Promise<Outcome>
  /**
   * Deletes a released record, if its version is still `version` at that moment. This is for operators and finished
   * one-time jobs. Candidates do not need it. A held record is refused, as `release` would be, and so is a missing one.
   * A version never recurs, so a late or repeated call can only delete the release that it was meant for. By default
   * the highest term stays. An observed store then counts the election as held for one more lease duration, like every
   * term without a record.
   *
   * Rejects with `INVALID_REQUEST` if the term is to stay and the store cannot keep it apart from the record.
   */
  forget?(claim: ForgetClaim, options: CallOptions): Promise<Forgotten>
  /** Like `read`, with the time left of the lease if the store has a clock for it. For people: no decision uses it. */
  look?(election: string, options: CallOptions): Promise<Look>
  /**
   * Yields the current record and then each change, or undefined when there is no record. It may skip states, and
   * safety does not depend on it: it only makes a takeover faster. It ends when the signal aborts.
   */
  watch?(election: string, options: WatchOptions): AsyncIterable<LeaseRecord | undefined>
  /**
   * Lists the elections, page by page. This is for people and tools. Candidates do not need it. An election whose
   * record exists from the first page to the last is listed. An election that is created, deleted, or changed in the
   * meantime may be listed any number of times, or not at all. A record that cannot be read hides no other record.
   */
  list?(page: ListOptions, options: CallOptions): Promise<ListPage>
  /**
   * Finds what a candidate will be missing here, such as a permission, without changing anything. The engine calls it
   * once, within a second of an elector's first answer, does not wait for it, and reports each diagnostic as an error.
   * A store that cannot tell returns none.
   */
  examine?(election: string, options: CallOptions): Promise<readonly Error[]>
  /** Closes what the store opened. It may be called repeatedly, and does not affect other handles to the same data. */
  close?(): Promise<void>
}
