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
 * - Names, metadata, and `checkpoint` are returned exactly as they were given, and no two elections share a record.
 *
 * `storeConformance` of `@tenure/testing/conformance` tests these requirements.
 */

/** A JSON value, as it may occur in {@link Metadata}. */
export type JsonValue = string | number | boolean | null | readonly JsonValue[] | { readonly [key: string]: JsonValue }

/**
 * Data that a candidate publishes about itself. Others see it in the record while it leads. @example const metadata:
 * Metadata = { zone: 'az-a', version: '1.4.2' }
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
  /** Unique to the acquire call that was granted. No two grants share an attempt, even grants of the same process. */
  readonly attempt: string
  /** The fencing token: a safe integer that rises with every grant. The first is at least 1. */
  readonly term: number
  readonly leaseDurationMs: number
  /** Wall clock of the process that wrote it, in Unix milliseconds. For display only: no decision depends on it. */
  readonly acquiredAt: number
  /**
   * Wall clock of the process that wrote the newest renewal, in Unix milliseconds. For display, and a hint for the
   * answer that another process leads: see `wasJustRenewed` in `election.ts`. No grant depends on it.
   */
  readonly renewedAt: number
  /** True if nobody holds the lease: it was released, or the store has proof that its holder is gone. */
  readonly released: boolean
  readonly metadata: Metadata
  /** The checkpoint: a short string that survives handovers. Only the leader sets it. Initially empty. */
  readonly checkpoint: string
  /** Opaque text, never empty, compared by equality. Differs after every write, even after a removal in between. */
  readonly version: string
  /**
   * The id of the claim that wrote this version, unchanged. It makes the text of every write differ, so that a version
   * may be a hash of the text. It also lets a holder distinguish its own writes from those of a clone of its process.
   * Undefined in records of client-go, and where a store keeps no write ids.
   */
  readonly writeId?: string | undefined
  /**
   * In a released record, the identity of the candidate that its holder handed over to. Other candidates leave it a
   * short time to take over. Cleared by the next grant. Undefined in all other records.
   */
  readonly successor?: string | undefined
  /**
   * True in a released record if the store knows that the lease expired and was not released by its holder. For display
   * only.
   */
  readonly expired?: boolean | undefined
}

/** The result of {@link LeaseStore.look}. */
export interface LeaseStatus {
  readonly record: LeaseRecord | undefined
  /** The time left on the store's own clock. 0 if the lease has ended, undefined if the store has no clock for it. */
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
  /** The write id to keep in the record; see {@link LeaseRecord.writeId}. The engine always sets it. */
  readonly writeId?: string | undefined
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
  /** Replaces the record's checkpoint. Only `renew` uses it. If undefined, the checkpoint stays unchanged. */
  readonly checkpoint?: string
  /** Kept in the released record; see {@link LeaseRecord.successor}. Only `release` uses it. */
  readonly successor?: string | undefined
  /** The write id to keep in the record; see {@link LeaseRecord.writeId}. The engine always sets it. */
  readonly writeId?: string | undefined
}

/**
 * Limits a call. A store stops waiting when `signal` aborts, but a request that it has already sent may still be
 * applied.
 */
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
 * here. `retryAfterMs` is the time left on the blocking lease, or less. It is set only if the store knows it. With
 * a released record, it is the time for which the store grants nothing to this candidate.
 */
export interface Refused {
  readonly ok: false
  readonly record?: LeaseRecord
  readonly highestTerm: number
  readonly retryAfterMs?: number
}

/**
 * Identifies the released record to delete.
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
   * Whether to delete the highest term as well. Terms then start again at 1, and a resource that has seen a higher one
   * refuses the next leaders. Default: false.
   */
  readonly withTerm?: boolean | undefined
}

/** The answer to {@link LeaseStore.forget}. */
export type Forgotten = { readonly ok: true } | Refused

/** The answer from a store. An answer is definite. Everything uncertain is a rejected promise. */
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
   * The place where this store keeps its leases, if there are several such places in which elections may have the same
   * name. Events, call reports, and explanations show it next to the election's name.
   */
  readonly namespace?: string
  /**
   * Whether this store must read an election before its first acquire. The engine then begins each campaign with a read
   * and sends the acquire only if the lease is free. A holder counts its lease from the moment it called `acquire`.
   * Without this option, the time for the read and for opening a connection would therefore be missing from the lease.
   * Only for a store whose candidates observe expiry. Default: false.
   */
  readonly readsFirst?: boolean
  /** The longest checkpoint that this store accepts, in bytes of UTF-8, at least 4096. Default: 4096. */
  readonly checkpointLimitBytes?: number
  /**
   * Whether the highest term outlives a record that is deleted, so that terms never start again. Default: false, which
   * makes shards learn used terms from the reports of their members.
   */
  readonly keepsTerms?: boolean
  /** Returns the record, even if it is released, or undefined if there is none. */
  read(election: string, options: CallOptions): Promise<LeaseRecord | undefined>
  /**
   * Repeating the record's own attempt, with the same holder, returns the same grant again while it is current: the
   * same term, the newest version, nothing written, nothing extended. The same attempt under another holder, or after
   * its grant was released or expired, is refused: one attempt belongs to one grant forever. Another attempt of the
   * same holder is treated like that of any other candidate.
   *
   * Any other attempt is granted a new term if no term above `afterTerm` was ever granted and the record was never
   * written, is released, has expired on the store's clock, or (for a store that does not decide expiry) is at
   * `expiredVersion`. A store that decides expiry itself frees nothing because of `expiredVersion`.
   *
   * A record that was deleted without a release counts as held. It counts as never written only if `afterTerm` is 0 and
   * the claim has no `expiredVersion`: if a candidate has seen a term and finds no record, the record was deleted. A
   * store that decides expiry keeps the lease of a deleted record until it would have expired. Where the candidates
   * decide expiry, only a claim with `expiredVersion` {@link absentVersion} can replace it. The highest term outlives
   * the record wherever the store allows it.
   *
   * Terms end at the last safe integer, or at the last one that the store can write exactly. After that nothing is
   * granted: a claim with that `afterTerm` is refused, or rejects with `TERM_EXHAUSTED`.
   */
  acquire(claim: AcquireClaim, options: CallOptions): Promise<Outcome>
  /**
   * Restarts the lease's duration, if holder, attempt, term, and version match. The lease then lasts as long as this
   * claim asks for. A store may keep a longer duration that it has promised for the same term. A store that decides
   * expiry refuses after the lease has expired. Only the duration, `renewedAt`, the write id, the version, and, if
   * given, `checkpoint` change. Nothing restores a deleted record.
   */
  renew(claim: HeldClaim, options: CallOptions): Promise<Outcome>
  /**
   * Releases the lease, if holder, attempt, term, and version match. The record stays, with its term and its
   * checkpoint, and with the claim's successor, if it has one, until the next grant. A store that cannot keep a
   * successor drops it. Then only the preference is lost.
   */
  release(claim: HeldClaim, options: CallOptions): Promise<Outcome>
  /**
   * Deletes a released record, if its version is still `version` at that moment. This is for operators and finished
   * one-time jobs. Candidates do not need it. A held record is refused, as `release` would be, and so is a missing one.
   * A version never recurs, so a late or repeated call can only delete the release that it was meant for. By default
   * the highest term stays. An observed store then counts the election as held for one more lease duration, like every
   * term without a record.
   *
   * Rejects with `INVALID_REQUEST` if the term is to stay but the store cannot keep it without the record.
   */
  forget?(claim: ForgetClaim, options: CallOptions): Promise<Forgotten>
  /**
   * Returns the record, and the time left on its lease if the store has a clock for it. For display, and as a hint when a
   * try is worthwhile. No grant depends on it.
   */
  look?(election: string, options: CallOptions): Promise<LeaseStatus>
  /**
   * Yields the current record and then each change, or undefined when there is no record. It may skip states. Safety
   * does not depend on it: a watch only makes a takeover faster. It ends when the signal aborts.
   */
  watch?(election: string, options: WatchOptions): AsyncIterable<LeaseRecord | undefined>
  /**
   * Lists the elections, page by page. This is for operators and tools. Candidates do not need it. An election whose
   * record exists from the first page to the last is listed. An election that is created, deleted, or changed in the
   * meantime may be listed any number of times, or never. A record that cannot be read hides no other record.
   */
  list?(page: ListOptions, options: CallOptions): Promise<ListPage>
  /**
   * Finds problems that a candidate would have with this store, such as a missing permission, without changing
   * anything. The engine calls it once, within a second of an elector's first answer, does not wait for it, and reports
   * each diagnostic as an error. A store that cannot determine them returns an empty list.
   */
  examine?(election: string, options: CallOptions): Promise<readonly Error[]>
  /**
   * Closes everything that the store opened. It may be called repeatedly, and does not affect other handles to the same
   * data.
   */
  close?(): Promise<void>
}
