/**
 * The port: what the engine asks of a store. Together with `election.ts` this is the whole safety argument.
 *
 * A store keeps one record per election. It promises:
 *
 * - every call is linearizable per election; a call that throws, or whose signal aborts, may have been applied,
 *   may be applied later, or never (the engine copes with all three);
 * - a grant carries a term above every term granted before, and terms are never reused;
 * - `renew` and `release` touch a record only if holder, attempt, term and version all match at that moment;
 * - every write gives the record a version that no earlier write had.
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
  /** The fencing token: a safe integer that rises with every grant. */
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
  /** Opaque; compared by equality. Differs after every write. */
  readonly version: string
}

/**
 * Asks for leadership.
 *
 * `afterTerm` is the highest term the candidate has seen. A store grants nothing if a higher one was ever granted, so
 * that a delayed claim can never follow a grant its sender did not know of.
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
}

/** Ends a call early. A store stops waiting when `signal` aborts; what it had already sent may still be applied. */
export interface CallOptions {
  readonly signal: AbortSignal
  /** The bound behind the signal, for clients that take a timeout of their own. Watches have none. */
  readonly timeoutMs?: number
}

/** The store did what was asked. `validForMs` is what was really granted, at most what was asked for. */
export interface Granted {
  readonly ok: true
  readonly record: LeaseRecord
  readonly validForMs: number
}

/** The store answered no. `retryAfterMs` is how long the lease in the way still lasts, where the store knows. */
export interface Refused {
  readonly ok: false
  readonly record?: LeaseRecord
  readonly highestTerm: number
  readonly retryAfterMs?: number
}

/** What a store answers. An answer is definite; everything uncertain is a rejected promise. */
export type Outcome = Granted | Refused

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
  /** The record, released ones too, or undefined if there is none. */
  read(election: string, options: CallOptions): Promise<LeaseRecord | undefined>
  /**
   * The record's own attempt gets the same grant again while it is current, never extended. Any other attempt is
   * granted a new term if no term above `afterTerm` was ever granted and the record was never written, is released,
   * has expired on the store's clock, or (for a store that cannot judge it) is at `expiredVersion`. A record is never
   * written only if `afterTerm` is 0 too: who has seen a term and finds no record has seen one vanish.
   */
  acquire(claim: AcquireClaim, options: CallOptions): Promise<Outcome>
  /**
   * Restarts the lease's duration, if holder, attempt, term and version match. A store may hold on to a longer one that
   * it has promised for the same term.
   */
  renew(claim: HeldClaim, options: CallOptions): Promise<Outcome>
  /** Gives the lease back, if holder, attempt, term and version match. */
  release(claim: HeldClaim, options: CallOptions): Promise<Outcome>
  /**
   * Yields the record as it is, then as it changes; undefined when there is none. It may skip states, and nothing
   * depends on it: it only makes a take-over faster. It ends when the signal aborts.
   */
  watch?(election: string, options: CallOptions): AsyncIterable<LeaseRecord | undefined>
  /** Ends what the store opened. */
  close?(): Promise<void>
}
