import { systemClock, type Clock } from '../common/clock.ts'
import { checkClock } from '../engine/check-values.ts'
import { checkMethods, checkOptions } from '../common/check-options.ts'
import type {
  AcquireClaim,
  CallOptions,
  HeldClaim,
  LeaseRecord,
  LeaseStore,
  Outcome,
  Refused,
} from '../engine/lease-store.ts'
import { plainStore } from './bound-store.ts'
import {
  granted,
  judgeAcquire,
  judgeRelease,
  judgeRenew,
  type Current,
  type RecordDraft,
  type Verdict,
} from './rules.ts'

/**
 * A storage whose entries expire on its own clock. Each method is one atomic step and returns whether it was applied,
 * directly or as a promise. If the outcome is uncertain, the method must throw.
 *
 * @example
 * const storage: TtlStorage<string, string> = {
 *   insertIfNotExist: async (key, value, ms) => (await redis.set(key, value, 'PX', ms, 'NX')) === 'OK',
 *   compareAndSwap: async (key, from, to, ms) => (await redis.eval(swapScript, 1, key, from, to, ms)) === 1,
 *   compareAndDelete: async (key, value) => (await redis.eval(deleteScript, 1, key, value)) === 1,
 * }
 */
export interface TtlStorage<K, V> {
  /** Inserts the entry for `durationMs`, only if the key has no entry. */
  insertIfNotExist(key: K, value: V, durationMs: number): Promise<boolean> | boolean
  /** Replaces the value and restarts the duration, only if the value is `oldValue`. */
  compareAndSwap(key: K, oldValue: V, newValue: V, durationMs: number): Promise<boolean> | boolean
  /** Deletes the entry, only if its value is `value`. */
  compareAndDelete(key: K, value: V): Promise<boolean> | boolean
}

/** Options of {@link ttlLease}. */
export interface TtlLeaseOptions<K, V> {
  readonly storage: TtlStorage<K, V>
  key(election: string): K
  /** Returns the value to store for a claim. It must be different for every acquisition by any process. */
  value(claim: { readonly holder: string; readonly attempt: string }): V
  readonly clock?: Clock | undefined
}

/** The state of one election that this store knows. It knows only its own calls, because the storage cannot be read. */
interface TtlEntry {
  /** The newest grant made through this store. */
  record: LeaseRecord | undefined
  expiresAtMs: number
  highestTerm: number
  writes: number
  /** Attempts whose insert was sent but not answered, with the time when each was first sent. */
  readonly unanswered: Map<string, number>
}

/**
 * Elects over a TTL storage. Its three methods cannot read an entry or keep a term, so there is no fencing: terms count
 * only the grants of this store object, and `lead` refuses the store.
 *
 * @example
 * const store = ttlStore(storage)
 * const elector = new Elector({ store, election: 'jobs' })
 */
export function ttlStore(storage: TtlStorage<string, string>, options: { clock?: Clock | undefined } = {}): LeaseStore {
  checkMethods('storage', storage, ['insertIfNotExist', 'compareAndSwap', 'compareAndDelete'], 'a TTL storage')
  checkOptions('ttlStore()', options, { clock: true })
  checkClock(options.clock)
  return ttlLease({
    storage,
    key: (election) => election,
    value: ({ holder, attempt }) => JSON.stringify([holder, attempt]),
    clock: options.clock,
  })
}

/** Builds a lease store on a TTL storage, as `ttlStore` does, but with keys and values of any type. */
export function ttlLease<K, V>(options: TtlLeaseOptions<K, V>): LeaseStore {
  return plainStore(new TtlLeases(options))
}

/** Does not use the shared rules, because they decide based on a state, and this storage cannot be read. */
class TtlLeases<K, V> implements LeaseStore {
  readonly expiry = 'own-clock'
  readonly terms = false
  readonly #options: TtlLeaseOptions<K, V>
  readonly #storage: TtlStorage<K, V>
  readonly #clock: Clock
  readonly #entries = new Map<string, TtlEntry>()

  constructor(options: TtlLeaseOptions<K, V>) {
    this.#options = options
    this.#storage = options.storage
    this.#clock = options.clock ?? systemClock
  }

  async read(): Promise<undefined> {
    return undefined
  }

  async acquire(claim: AcquireClaim, { signal }: CallOptions): Promise<Outcome> {
    signal.throwIfAborted()
    const entry = this.#entryOf(claim.election)
    return this.#repeated(entry, claim) ?? abortable(this.#insert(entry, claim), signal)
  }

  async renew(claim: HeldClaim, { signal }: CallOptions): Promise<Outcome> {
    signal.throwIfAborted()
    const judge = (current: Current) => judgeRenew(current, claim, this.#clock.wallMs())
    const send = (k: K, v: V) => abortable(this.#storage.compareAndSwap(k, v, v, claim.leaseDurationMs), signal)
    return this.#change(claim, judge, send)
  }

  async release(claim: HeldClaim, { signal }: CallOptions): Promise<Outcome> {
    signal.throwIfAborted()
    const judge = (current: Current) => judgeRelease(current, claim)
    return this.#change(claim, judge, (k, v) => abortable(this.#storage.compareAndDelete(k, v), signal))
  }

  #entryOf(election: string): TtlEntry {
    let entry = this.#entries.get(election)
    if (!entry) {
      entry = { record: undefined, expiresAtMs: -Infinity, highestTerm: 0, writes: 0, unanswered: new Map() }
      this.#entries.set(election, entry)
    }
    return entry
  }

  /** An attempt has one grant. A repeated call gets the same grant while it lasts, and a refusal afterwards. */
  #repeated(entry: TtlEntry, claim: AcquireClaim): Outcome | undefined {
    const { record } = entry
    if (record?.attempt !== claim.attempt) return undefined
    const lasts = record.holder === claim.holder && !record.released && this.#clock.monotonicMs() < entry.expiresAtMs
    return lasts ? granted(record, claim) : refused(entry)
  }

  async #insert(entry: TtlEntry, claim: AcquireClaim): Promise<Outcome> {
    // Throws if the terms are used up, before anything is sent.
    draftOf(entry, claim, this.#clock.wallMs())
    const { attempt, leaseDurationMs } = claim
    const [k, v] = this.#pairOf(claim)
    const sentAtMs = this.#clock.monotonicMs()
    forgetOld(entry, sentAtMs - leaseDurationMs)
    const repeats = entry.unanswered.has(attempt)
    const firstSentAtMs = entry.unanswered.get(attempt) ?? sentAtMs
    entry.unanswered.set(attempt, firstSentAtMs)

    let ours = await this.#storage.insertIfNotExist(k, v, leaseDurationMs)
    // The existing entry may come from an earlier insert of this attempt. A successful swap proves that. It also
    // restarts the duration, which is harmless because the holder counts from its first call.
    if (!ours && repeats && !this.#repeated(entry, claim)) {
      ours = await this.#storage.compareAndSwap(k, v, v, leaseDurationMs)
    }
    const known = this.#repeated(entry, claim)
    if (known) return known
    entry.unanswered.delete(attempt)
    const expiresAtMs = firstSentAtMs + leaseDurationMs
    // An answer that took a whole lease may be older than another candidate's later grant.
    if (!ours || this.#clock.monotonicMs() >= expiresAtMs) return refused(entry)
    entry.expiresAtMs = expiresAtMs
    return granted(write(entry, draftOf(entry, claim, this.#clock.wallMs())), claim)
  }

  async #change(
    claim: HeldClaim,
    judge: (current: Current) => Verdict,
    send: (k: K, v: V) => Promise<boolean>,
  ): Promise<Outcome> {
    const entry = this.#entryOf(claim.election)
    const { record } = entry
    const verdict = judge({ record, highestTerm: entry.highestTerm, remainingMs: undefined })
    if ('answer' in verdict) return verdict.answer
    const sentAtMs = this.#clock.monotonicMs()
    const done = await send(...this.#pairOf(claim))
    const current = entry.record === record
    if (!done) {
      // The storage no longer has the entry, so this grant has ended.
      if (current) write(entry, { ...verdict.write, released: true })
      return refused(entry)
    }
    if (!current) return overtaken(entry, verdict.write, claim)
    entry.expiresAtMs = sentAtMs + claim.leaseDurationMs
    return granted(write(entry, verdict.write), claim)
  }

  /** The key and value of a claim in the storage. */
  #pairOf(claim: AcquireClaim | HeldClaim): [key: K, value: V] {
    return [this.#options.key(claim.election), this.#options.value(claim)]
  }
}

function draftOf(entry: TtlEntry, claim: AcquireClaim, wallMs: number): RecordDraft {
  const free: Current = { record: undefined, highestTerm: 0, remainingMs: 0 }
  const afterTerm = Math.max(entry.highestTerm, claim.afterTerm)
  const verdict = judgeAcquire(free, { ...claim, afterTerm }, wallMs)
  if ('write' in verdict) return verdict.write
  throw new Error('A free lease was not granted.')
}

function write(entry: TtlEntry, draft: RecordDraft): LeaseRecord {
  const record = { ...draft, version: String(++entry.writes) }
  entry.record = record
  entry.highestTerm = Math.max(entry.highestTerm, record.term)
  return record
}

/** The answer when the storage applied a call but another call of this store changed the entry in the meantime. */
function overtaken(entry: TtlEntry, draft: RecordDraft, claim: HeldClaim): Outcome {
  const own = entry.record?.attempt === draft.attempt
  if (!draft.released) return { ...refused(entry), ...(own && entry.record && { record: entry.record }) }
  return granted(own ? write(entry, draft) : { ...draft, version: claim.version }, claim)
}

function refused({ highestTerm }: TtlEntry): Refused {
  return { ok: false, highestTerm }
}

/** Forgets inserts that were sent more than a whole lease ago, because they can no longer lead to a grant. */
function forgetOld({ unanswered }: TtlEntry, beforeMs: number): void {
  for (const [attempt, sentAtMs] of unanswered) if (sentAtMs <= beforeMs) unanswered.delete(attempt)
}

/** Stops waiting when the signal aborts. The storage is not notified, and its answer is dropped. */
function abortable<T>(answer: Promise<T> | T, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason)
    signal.addEventListener('abort', onAbort, { once: true })
    Promise.resolve(answer)
      .then(resolve, reject)
      .finally(() => signal.removeEventListener('abort', onAbort))
  })
}
