/**
 * The port: what the engine asks of a store. Together with `election.ts` this is the whole safety argument.
 *
 * A store keeps one record per election. It promises:
 *
 * - every call is linearizable per election; a call that throws, or whose signal aborts, may have been applied,
 *   may be applied later, or never (the engine copes with all three);
 * - a grant carries a term above every term granted before, and terms are never reused;
 * - `renew` and `release` touch a record only if holder, attempt, term and version all match at that moment;
 * - every write gives the record a version that no earlier write had;
 * - a call that is refused writes nothing; a grant and a carry are as durable as the store is before they are answered;
 * - names, metadata and `carry` come back as they were given, and no two elections share a record.
 *
 * `storeConformance` of `tenure/conformance` tests what this file asks of a store.
 */

/** A JSON value, as it may stand in {@link Metadata}. */
export type JsonValue = string | number | boolean | null | readonly JsonValue[] | { readonly [key: string]: JsonValue }

/**
 * What a candidate tells about itself; others see it in the record while it leads.
 *
 * @example
 * const metadata: Metadata = { zone: 'az-a', version: '1.4.2' }
 */
export type Metadata = { readonly [key: string]: JsonValue }

/**
 * What a store keeps for one election. A released record stays, so that its term and `carry` go on.
 *
 * @example
 * const record = elector.leader()
 * if (record && !record.released) console.log(`${record.holder} leads term ${record.term}`)
 */
export interface LeaseRecord {
  readonly election: string
  /** Identity of the candidate that was granted `term`. */
  readonly holder: string
  /** Unique to the acquire call that was granted; two grants never share one, not even of the same process. */
  readonly attempt: string
  /** The fencing token: a safe integer that rises with every grant; the first is at least 1. */
  readonly term: number
  readonly leaseDurationMs: number
  /** Wall clock of whoever wrote it, in Unix milliseconds. For people only: no decision reads it. */
  readonly acquiredAt: number
  /** Like `acquiredAt`, of the newest renewal. */
  readonly renewedAt: number
  /** True when nobody holds the lease: it was given back, or the store has proof that its holder is gone. */
  readonly released: boolean
  readonly metadata: Metadata
  /** A small text that survives hand-overs; only the leader sets it. Empty at first. */
  readonly carry: string
  /** Opaque text, never empty; compared by equality. Differs after every write, even after a removal in between. */
  readonly version: string
  /**
   * The `mark` of the claim that wrote this version, as it came. It makes the text of every write differ, so that a
   * version may be a hash of it, and lets a holder tell its own writes from those of a clone of its process. Missing in
   * what a version without marks has written.
   */
  readonly mark?: string | undefined
  /** Only of a released record: the store knows that the lease ran out, it was not given back. For people. */
  readonly ranOut?: boolean | undefined
}

/** What {@link LeaseStore.look} shows. */
export interface Look {
  readonly record: LeaseRecord | undefined
  /** What is left of the lease on the store's own clock: 0 if it is over; undefined if the store cannot judge it. */
  readonly remainingMs: number | undefined
}

/**
 * Asks for leadership.
 *
 * `afterTerm` is the highest term the candidate has seen. A store grants nothing if a higher one was ever granted, so
 * that a delayed claim can never follow a grant its sender did not know of. The term it grants is above `afterTerm`.
 */
export interface AcquireClaim {
  readonly election: string
  readonly holder: string
  readonly attempt: string
  readonly leaseDurationMs: number
  readonly afterTerm: number
  /**
   * The version whose lease the candidate has watched run out; {@link absentVersion} if the record had vanished and the
   * candidate has waited since. The store compares and swaps on exactly this version.
   */
  readonly expiredVersion?: string
  readonly metadata: Metadata
  /** Kept in the record that is written; see {@link LeaseRecord.mark}. The engine always gives one. */
  readonly mark?: string | undefined
}

/** Stands for the version of a record that is not there. */
export const absentVersion = ''

/** Names one grant, and the version of the record last seen for it. */
export interface HeldClaim {
  readonly election: string
  readonly holder: string
  readonly attempt: string
  readonly term: number
  readonly version: string
  readonly leaseDurationMs: number
  /** Only for `renew`: replaces the record's carry. Left out, the carry stays as it is. */
  readonly carry?: string
  /** Kept in the record that is written; see {@link LeaseRecord.mark}. The engine always gives one. */
  readonly mark?: string | undefined
}

/** Ends a call early. A store stops waiting when `signal` aborts; what it had already sent may still be applied. */
export interface CallOptions {
  readonly signal: AbortSignal
  /** The bound behind the signal, for clients that take a timeout of their own. Watches have none. */
  readonly timeoutMs?: number | undefined
}

/** What a watch takes. */
export interface WatchOptions extends CallOptions {
  /**
   * The candidate that waits for its turn. A store that shows who takes part shows it while the watch is open. Undefined:
   * the watcher only looks on.
   */
  readonly holder?: string | undefined
}

/**
 * The store did what was asked. `validForMs` is how long the grant really lasts: above 0, and never above the claim's
 * `leaseDurationMs`, nor above the record's. This binds an attempt that is repeated with a shorter duration too, and a
 * store that rounds durations up: the holder counts with `validForMs` from the moment of sending.
 */
export interface Granted {
  readonly ok: true
  readonly record: LeaseRecord
  readonly validForMs: number
}

/**
 * The store answered no, for certain, and wrote nothing. `record` is the record as it is, if there is one and the store
 * can read it. `highestTerm` is the highest term ever granted, at least the record's: the candidate learns it here.
 * `retryAfterMs` is how long the lease in the way still lasts, never more than that, where the store knows.
 */
export interface Refused {
  readonly ok: false
  readonly record?: LeaseRecord
  readonly highestTerm: number
  readonly retryAfterMs?: number
}

/**
 * Names a release that is to be forgotten.
 *
 * @example
 * const record = await store.read('import-2026', call)
 * if (record?.released) await store.forget?.({ election: 'import-2026', version: record.version }, call)
 */
export interface ForgetClaim {
  readonly election: string
  /** Of the released record, as it was read. */
  readonly version: string
  /**
   * Removes the highest term too. Terms then begin again at 1, and a resource that has seen a higher one refuses the
   * next leaders. Default: false.
   */
  readonly withTerm?: boolean | undefined
}

/** What a store answers to {@link LeaseStore.forget}. */
export type Forgotten = { readonly ok: true } | Refused

/** What a store answers. An answer is definite; everything uncertain is a rejected promise. */
export type Outcome = Granted | Refused

/** Which part of a listing to give. */
export interface ListOptions {
  /** The `next` of the page before. Left out, the listing begins. */
  readonly after?: string | undefined
  /** How many records a page may have, at most 1000. 100 unless given. */
  readonly limit?: number | undefined
}

/** A part of all the elections that a store has a record of, in an order of the store's own. */
export interface ListPage {
  /** Released ones too. A page may have fewer than were asked for, or none, although more follow. */
  readonly records: readonly LeaseRecord[]
  /** Opaque: where the next page begins. Missing, this was the last one. */
  readonly next?: string | undefined
  /** What stands among the records and cannot be read as one, a sentence for each. */
  readonly problems?: readonly string[] | undefined
}

/**
 * A place that holds leases.
 *
 * @example
 * const store: LeaseStore = memoryStore()
 * const record = await store.read('payments', { signal: AbortSignal.timeout(1_000) })
 */
export interface LeaseStore {
  /**
   * Who judges that a lease ran out. `own-clock`: the store, on a clock that cannot step. `observed`: the candidates,
   * each by watching one version of the record for its whole duration.
   */
  readonly expiry: 'own-clock' | 'observed'
  /** Whether terms last. Without them there is no fencing, and `lead` refuses the store. */
  readonly terms: boolean
  /**
   * Where this store keeps its leases, if there are several such places whose elections may have the same names. Events,
   * reports of calls and explanations show it beside the election's name.
   */
  readonly namespace?: string
  /** The record, released ones too, or undefined if there is none. */
  read(election: string, options: CallOptions): Promise<LeaseRecord | undefined>
  /**
   * The record's own attempt, of the same holder, gets the same grant again while it is current: the same term, the
   * newest version, nothing written, nothing extended. The same attempt under another holder, or after its grant was
   * released or ran out, is refused: one attempt belongs to one grant for ever. Another attempt of the same holder is a
   * stranger.
   *
   * Any other attempt is granted a new term if no term above `afterTerm` was ever granted and the record was never
   * written, is released, has expired on the store's clock, or (for a store that cannot judge it) is at
   * `expiredVersion`. A store that judges expiry itself frees nothing because of `expiredVersion`.
   *
   * A record that was removed without a release counts as held. It was never written only if `afterTerm` is 0 and the
   * claim names no `expiredVersion`: a candidate that has seen a term and finds no record has seen one vanish. A store
   * that judges expiry keeps the lease of a removed record until it would have run out. Where the candidates judge,
   * only a claim with `expiredVersion` {@link absentVersion} takes its place. The highest term outlives the record
   * wherever the store allows.
   *
   * Terms end at the last safe integer, or at the last one that the store can write exactly. After it nothing is
   * granted: a claim with that `afterTerm` is refused, or rejects with `TERM_EXHAUSTED`.
   */
  acquire(claim: AcquireClaim, options: CallOptions): Promise<Outcome>
  /**
   * Restarts the lease's duration, if holder, attempt, term and version match. The lease then lasts as long as this
   * claim asks for; a store may hold on to a longer one that it has promised for the same term. A store that judges
   * expiry refuses after the lease has run out. Everything but duration, `renewedAt`, mark, version and, where given,
   * `carry` stays. Nothing brings a removed record back.
   */
  renew(claim: HeldClaim, options: CallOptions): Promise<Outcome>
  /** Gives the lease back, if holder, attempt, term and version match. The record stays, with its term and carry. */
  release(claim: HeldClaim, options: CallOptions): Promise<Outcome>
  /**
   * Removes a released record, if its version is still `version` at that moment; for people and finished one-time jobs,
   * no candidate needs it. A held record is refused, as `release` would be, and so is one that is not there. A version
   * never returns, so a late or repeated call can only remove the release that it was meant for. By default the highest
   * term stays, and then an observed store counts the election as held for one lease more, like every term that has no record.
   *
   * Rejects with `INVALID_REQUEST` if the term is to stay and the store has no place for it apart from the record.
   */
  forget?(claim: ForgetClaim, options: CallOptions): Promise<Forgotten>
  /** Like `read`, with what is left of the lease, where the store has a clock for it. For people: nobody decides by it. */
  look?(election: string, options: CallOptions): Promise<Look>
  /**
   * Yields the record as it is, then as it changes; undefined when there is none. It may skip states, and nothing
   * depends on it: it only makes a take-over faster. It ends when the signal aborts.
   */
  watch?(election: string, options: WatchOptions): AsyncIterable<LeaseRecord | undefined>
  /**
   * Shows which elections there are, page by page; for people and tools, no candidate needs it. An election whose record
   * is there from the first page to the last is shown; whether one that comes, goes or changes meanwhile is shown, and
   * how often, is open. A record that cannot be read hides no other.
   */
  list?(page: ListOptions, options: CallOptions): Promise<ListPage>
  /**
   * What a candidate will miss here, such as a right, found without changing anything. The engine asks once, within a
   * second of an elector's first answer, waits for nothing, and reports each finding as an error. A store that cannot
   * tell gives none.
   */
  examine?(election: string, options: CallOptions): Promise<readonly Error[]>
  /** Ends what the store opened. It may be called again, and leaves other handles onto the same data as they are. */
  close?(): Promise<void>
}
