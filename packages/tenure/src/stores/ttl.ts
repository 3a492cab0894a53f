import { systemClock, type Clock } from '../clock.ts'
import { checkClock, checkMethods, checkObject } from '../options.ts'
import type { AcquireClaim, HeldClaim, LeaseRecord, LeaseStore, Outcome, Refused } from '../lease-store.ts'
import { granted, judgeAcquire, judgeRelease, judgeRenew, type Current, type Draft, type Verdict } from './rules.ts'

/**
 * A storage whose entries vanish when their time is up, on its own clock. Each verb is one atomic step and answers
 * whether it was done; when that is not known for sure, it must throw.
 *
 * @example
 * const storage: TtlStorage<string, string> = {
 *   insertIfNotExist: async (key, value, ms) => (await redis.set(key, value, 'PX', ms, 'NX')) === 'OK',
 *   compareAndSwap: async (key, from, to, ms) => (await redis.eval(swapScript, 1, key, from, to, ms)) === 1,
 *   compareAndDelete: async (key, value) => (await redis.eval(deleteScript, 1, key, value)) === 1,
 * }
 */
export interface TtlStorage<K, V> {
  /** Puts the entry for `durationMs`, only if there is none for the key. */
  insertIfNotExist(key: K, value: V, durationMs: number): Promise<boolean>
  /** Replaces the value and restarts the duration, only if the value is `oldValue`. */
  compareAndSwap(key: K, oldValue: V, newValue: V, durationMs: number): Promise<boolean>
  /** Deletes the entry, only if its value is `value`. */
  compareAndDelete(key: K, value: V): Promise<boolean>
}

/** How {@link ttlLease} uses a storage. */
export interface TtlLeaseOptions<K, V> {
  readonly storage: TtlStorage<K, V>
  key(election: string): K
  /** Must differ between any two acquisitions that anyone makes. */
  value(claim: { readonly holder: string; readonly attempt: string }): V
  readonly clock?: Clock | undefined
}

/** What this store knows of one election: only what it was told itself, for the storage cannot be read. */
interface Entry {
  /** The newest grant that went through this store. */
  record: LeaseRecord | undefined
  expiresAtMs: number
  highestTerm: number
  writes: number
  /** Attempts whose insert was sent but not answered, with the time of their first one. */
  readonly unanswered: Map<string, number>
}

/**
 * Elects over a TTL storage. With its three verbs alone nothing can be read and no term lasts, so there is no fencing,
 * and `lead` refuses it: terms count the grants of this store object only.
 *
 * @example
 * const store = ttlStore(storage)
 * const elector = new Elector({ store, election: 'jobs' })
 */
export function ttlStore(storage: TtlStorage<string, string>, options: { clock?: Clock } = {}): LeaseStore {
  checkMethods('storage', storage, ['insertIfNotExist', 'compareAndSwap', 'compareAndDelete'], 'a TTL storage')
  checkObject('options', options)
  checkClock(options.clock)
  return ttlLease({
    storage,
    key: (election) => election,
    value: ({ holder, attempt }) => JSON.stringify([holder, attempt]),
    clock: options.clock,
  })
}

/** `ttlStore` for keys and values of any kind. */
export function ttlLease<K, V>({ storage, key, value, clock = systemClock }: TtlLeaseOptions<K, V>): LeaseStore {
  const entries = new Map<string, Entry>()

  const entryOf = (election: string): Entry => {
    let entry = entries.get(election)
    if (!entry) {
      entry = { record: undefined, expiresAtMs: -Infinity, highestTerm: 0, writes: 0, unanswered: new Map() }
      entries.set(election, entry)
    }
    return entry
  }

  /** One attempt has one grant: the same again while it lasts, nothing afterwards. */
  const repeated = (entry: Entry, claim: AcquireClaim): Outcome | undefined => {
    const { record } = entry
    if (record?.attempt !== claim.attempt) return undefined
    const lasts = record.holder === claim.holder && !record.released && clock.monotonicMs() < entry.expiresAtMs
    return lasts ? granted(record, claim) : refused(entry)
  }

  const insert = async (entry: Entry, claim: AcquireClaim): Promise<Outcome> => {
    // Throws if the terms are used up, before anything is sent.
    draftOf(entry, claim, clock.wallMs())
    const { attempt, leaseDurationMs } = claim
    const [k, v] = [key(claim.election), value(claim)]
    const sentAtMs = clock.monotonicMs()
    forgetOld(entry, sentAtMs - leaseDurationMs)
    const repeats = entry.unanswered.has(attempt)
    const firstSentAtMs = entry.unanswered.get(attempt) ?? sentAtMs
    entry.unanswered.set(attempt, firstSentAtMs)

    let ours = await storage.insertIfNotExist(k, v, leaseDurationMs)
    // An earlier insert of this attempt may be what is in the way. The swap proves it; that it also restarts the
    // duration harms nobody, for the holder counts from its first call.
    if (!ours && repeats && !repeated(entry, claim)) ours = await storage.compareAndSwap(k, v, v, leaseDurationMs)
    const known = repeated(entry, claim)
    if (known) return known
    entry.unanswered.delete(attempt)
    const expiresAtMs = firstSentAtMs + leaseDurationMs
    // An answer that took a whole lease may be older than a grant that came after it.
    if (!ours || clock.monotonicMs() >= expiresAtMs) return refused(entry)
    entry.expiresAtMs = expiresAtMs
    return granted(write(entry, draftOf(entry, claim, clock.wallMs())), claim)
  }

  const change = async (
    claim: HeldClaim,
    judge: (current: Current) => Verdict,
    send: (k: K, v: V) => Promise<boolean>,
  ): Promise<Outcome> => {
    const entry = entryOf(claim.election)
    const { record } = entry
    const verdict = judge({ record, highestTerm: entry.highestTerm, remainingMs: undefined })
    if ('answer' in verdict) return verdict.answer
    const sentAtMs = clock.monotonicMs()
    const done = await send(key(claim.election), value(claim))
    const current = entry.record === record
    if (!done) {
      // The storage no longer has it, so this grant is over.
      if (current) write(entry, { ...verdict.write, released: true })
      return refused(entry)
    }
    if (!current) return overtaken(entry, verdict.write, claim)
    entry.expiresAtMs = sentAtMs + claim.leaseDurationMs
    return granted(write(entry, verdict.write), claim)
  }

  return {
    expiry: 'own-clock',
    terms: false,
    read: async () => undefined,
    async acquire(claim, { signal }) {
      signal.throwIfAborted()
      const entry = entryOf(claim.election)
      return repeated(entry, claim) ?? abortable(insert(entry, claim), signal)
    },
    async renew(claim, { signal }) {
      signal.throwIfAborted()
      const judge = (current: Current) => judgeRenew(current, claim, clock.wallMs())
      const send = (k: K, v: V) => abortable(storage.compareAndSwap(k, v, v, claim.leaseDurationMs), signal)
      return change(claim, judge, send)
    },
    async release(claim, { signal }) {
      signal.throwIfAborted()
      const judge = (current: Current) => judgeRelease(current, claim)
      return change(claim, judge, (k, v) => abortable(storage.compareAndDelete(k, v), signal))
    },
  }
}

function draftOf(entry: Entry, claim: AcquireClaim, wallMs: number): Draft {
  const free: Current = { record: undefined, highestTerm: 0, remainingMs: 0 }
  const afterTerm = Math.max(entry.highestTerm, claim.afterTerm)
  const verdict = judgeAcquire(free, { ...claim, afterTerm }, wallMs)
  if ('write' in verdict) return verdict.write
  throw new Error('A lease that is free was not granted.')
}

function write(entry: Entry, draft: Draft): LeaseRecord {
  const record = { ...draft, version: String(++entry.writes) }
  entry.record = record
  entry.highestTerm = Math.max(entry.highestTerm, record.term)
  return record
}

/** What the storage did is true all the same, but another call of this store has changed what it keeps of it. */
function overtaken(entry: Entry, draft: Draft, claim: HeldClaim): Outcome {
  const own = entry.record?.attempt === draft.attempt
  if (!draft.released) return { ...refused(entry), ...(own && entry.record && { record: entry.record }) }
  return granted(own ? write(entry, draft) : { ...draft, version: claim.version }, claim)
}

function refused({ highestTerm }: Entry): Refused {
  return { ok: false, highestTerm }
}

/** What was sent a whole lease ago can win nothing any more, so it need not be remembered. */
function forgetOld({ unanswered }: Entry, beforeMs: number): void {
  for (const [attempt, sentAtMs] of unanswered) if (sentAtMs <= beforeMs) unanswered.delete(attempt)
}

/** Stops waiting when the signal aborts. A storage cannot be told, so its answer is then dropped. */
function abortable<T>(answer: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason)
    signal.addEventListener('abort', onAbort, { once: true })
    answer.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort))
  })
}
