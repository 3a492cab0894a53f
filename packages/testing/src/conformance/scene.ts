import { AssertionError, deepStrictEqual, fail, ok } from 'node:assert/strict'
import {
  absentVersion,
  type AcquireClaim,
  type CallOptions,
  type Granted,
  type HeldClaim,
  type LeaseRecord,
  type LeaseStore,
  type Outcome,
  type Refused,
} from 'tenure'
import { checkMembers, checkStore, systemClock } from 'tenure/internal'

/**
 * A store and what the suite may do with it. The elections `constructor` and `__proto__` must not be held when the
 * suite starts. All other names are random, so data of earlier runs does not matter.
 */
export interface StoreUnderTest {
  readonly store: LeaseStore
  /**
   * Advances the store's clock by exactly this much. The clock must not move otherwise. Without this function, the
   * suite waits in real time and its checks are less exact.
   */
  readonly pass?: ((ms: number) => void | Promise<void>) | undefined
  /** Deletes the election's record behind the store's back, as an operator would. */
  readonly remove?: ((election: string) => void | Promise<void>) | undefined
  /**
   * True if the store loses the highest term when the record is removed. Default: false. The term must then outlive the
   * record. A store whose `keepsTerms` is true is tested as if this were false.
   */
  readonly forgetsTerms?: boolean | undefined
  /** True if the store drops the successor that a release names. Default: false, it keeps it until the next grant. */
  readonly dropsSuccessors?: boolean | undefined
  /**
   * True if a renewal that requests a shorter lease leaves the promised end in place. Default: false. The lease then
   * gets shorter.
   */
  readonly keepsPromises?: boolean | undefined
  /** The highest term that the store can write. Default: `Number.MAX_SAFE_INTEGER`. */
  readonly lastTerm?: number | undefined
  /** How far `afterTerm` may be above the highest term of an election. A larger gap is an error. Default: no limit. */
  readonly mostTermsAhead?: number | undefined
  /** The maximum length of a holder in bytes of UTF-8, if it is below the library's 256. */
  readonly longestHolderBytes?: number | undefined
  /** Opens a second handle on the same data, as another process would. */
  readonly open?: (() => LeaseStore | Promise<LeaseStore>) | undefined
  /** Closes everything after each case. Default: the store's own `close`. */
  readonly close?: (() => void | Promise<void>) | undefined
}

/** The timeout of the suite and the length of the leases that it lets expire. */
export interface ConformanceOptions {
  /** A call or event that takes longer than this in real time has failed. Default: 5 s. */
  readonly patienceMs?: number | undefined
  /** Default: 10 s if `pass` is given, otherwise 500 ms. */
  readonly leaseDurationMs?: number | undefined
}

const optionalMembers = [
  'pass',
  'remove',
  'forgetsTerms',
  'dropsSuccessors',
  'keepsPromises',
  'lastTerm',
  'mostTermsAhead',
  'longestHolderBytes',
  'open',
  'close',
]

// No case lets this lease expire, even on a slow machine.
const longLeaseMs = 60_000
// Server clocks with a coarse resolution may free a lease a little late.
const realTimeSlackMs = 50

/** The store, election, and clock of one case. */
export class ConformanceScene {
  readonly under: StoreUnderTest
  readonly store: LeaseStore
  readonly election = `conformance ${systemClock.randomId()}`
  readonly leaseDurationMs: number
  /** Whether only `pass` advances the clock. */
  readonly exact: boolean
  readonly #patienceMs: number
  readonly #handles: LeaseStore[] = []
  #passedMs = 0

  constructor(under: StoreUnderTest, options: ConformanceOptions) {
    checkStore(under?.store)
    checkMembers('makeStore()', under, optionalMembers)
    this.under = under
    this.store = under.store
    this.exact = under.pass !== undefined
    this.leaseDurationMs = options.leaseDurationMs ?? (this.exact ? 10_000 : 500)
    this.#patienceMs = options.patienceMs ?? 5_000
  }

  async end(): Promise<void> {
    for (const handle of this.#handles) await handle.close?.()
    await (this.under.close ? this.under.close() : this.store.close?.())
  }

  get lastTerm(): number {
    return this.under.lastTerm ?? Number.MAX_SAFE_INTEGER
  }

  nowMs(): number {
    return this.exact ? this.#passedMs : systemClock.monotonicMs()
  }

  async pass(ms: number): Promise<void> {
    if (!this.under.pass) return new Promise((resolve) => void systemClock.setTimer(ms, resolve))
    this.#passedMs += ms
    await this.under.pass(ms)
  }

  /** Advances the clock to a moment at which a lease has certainly expired. */
  async passUntil(momentMs: number): Promise<void> {
    await this.pass(Math.max(0, momentMs - this.nowMs()) + (this.exact ? 0 : realTimeSlackMs))
  }

  async open(): Promise<LeaseStore> {
    const handle = await this.under.open?.()
    if (!handle) throw new Error('This case needs `open`.')
    this.#handles.push(handle)
    return handle
  }

  async remove(): Promise<void> {
    await this.under.remove?.(this.election)
  }

  /** Fails if a promise does not settle in time. The error names the call that hung. */
  async within<T>(what: string, promise: Promise<T>): Promise<T> {
    let stop = () => {}
    const late = new Promise<never>((_, reject) => {
      const timer = systemClock.setTimer(this.#patienceMs, () =>
        reject(new AssertionError({ message: `${what} did not settle within ${this.#patienceMs} ms.` })),
      )
      stop = () => timer.cancel()
    })
    return Promise.race([promise, late]).finally(stop)
  }

  call(signal: AbortSignal = new AbortController().signal): CallOptions {
    return { signal, timeoutMs: this.#patienceMs }
  }

  /** Returns a claim with a new attempt. */
  claim(change: Partial<AcquireClaim> = {}): AcquireClaim {
    return {
      election: this.election,
      holder: 'ada',
      attempt: systemClock.randomId(),
      leaseDurationMs: longLeaseMs,
      afterTerm: 0,
      metadata: {},
      ...change,
    }
  }

  read(election = this.election): Promise<LeaseRecord | undefined> {
    return this.within(`read("${election}")`, this.store.read(election, this.call()))
  }

  acquire(change: Partial<AcquireClaim> = {}, store = this.store): Promise<Outcome> {
    return this.#answer('acquire', store.acquire(this.claim(change), this.call()))
  }

  renew(record: LeaseRecord, change: Partial<HeldClaim> = {}, store = this.store): Promise<Outcome> {
    return this.#answer('renew', store.renew(held(record, change), this.call()))
  }

  release(record: LeaseRecord, change: Partial<HeldClaim> = {}, store = this.store): Promise<Outcome> {
    return this.#answer('release', store.release(held(record, change), this.call()))
  }

  async #answer(call: string, answer: Promise<Outcome>): Promise<Outcome> {
    const outcome = await this.within(call, answer)
    checkShape(call, outcome)
    return outcome
  }

  /** Calls acquire, which must be granted. */
  async grant(change: Partial<AcquireClaim> = {}, why = 'The election is free.'): Promise<Granted> {
    return granted('acquire', await this.acquire(change), why)
  }

  /** Calls acquire before `momentMs`, and fails if it was granted early. Returns whether the lease was still held. */
  async stillHeld(momentMs: number, change: Partial<AcquireClaim>, why: string): Promise<boolean> {
    const outcome = await this.acquire(change)
    const earlyMs = momentMs - this.nowMs()
    if (outcome.ok && earlyMs > 0) fail(`acquire was granted ${earlyMs} ms too early: ${show(outcome)}. ${why}`)
    return !outcome.ok
  }

  /** Checks that the store holds exactly this record. Stores without lasting terms cannot read. */
  async expectStored(expected: LeaseRecord | undefined, why: string): Promise<void> {
    if (this.store.terms) same('The stored record', await this.read(), expected, why)
  }
}

/** The fields of a claim by a candidate that has seen a term, found no record, and waited for a whole lease. */
export function unseen(afterTerm: number): Partial<AcquireClaim> {
  return { afterTerm, expiredVersion: absentVersion }
}

/** Returns the claim that names a record's grant and version. */
export function held(record: LeaseRecord, change: Partial<HeldClaim> = {}): HeldClaim {
  const { election, holder, attempt, term, version, leaseDurationMs } = record
  return { election, holder, attempt, term, version, leaseDurationMs, ...change }
}

/** Checks that the outcome is a grant. */
export function granted(call: string, outcome: Outcome, why: string): Granted {
  if (outcome.ok) return outcome
  return fail(`${call} was refused: ${show(outcome)}. ${why}`)
}

/** Checks that the outcome is a refusal. */
export function refused(call: string, outcome: Outcome, why: string): Refused {
  if (!outcome.ok) return outcome
  return fail(`${call} was granted: ${show(outcome)}. ${why}`)
}

/** Checks that two values are deeply equal. */
export function same(what: string, actual: unknown, expected: unknown, why: string): void {
  try {
    deepStrictEqual(plain(actual), plain(expected))
  } catch {
    fail(`${what} is ${show(actual)}, expected ${show(expected)}. ${why}`)
  }
}

/** Checks the values that the engine relies on in every answer. */
function checkShape(call: string, outcome: Outcome): void {
  const { ok: done, record } = outcome
  check(typeof done === 'boolean', `${call} answered ${show(outcome)}: "ok" must be a boolean.`)
  if (record) {
    const { term, version, leaseDurationMs } = record
    check(Number.isSafeInteger(term) && term > 0, `${call} returned term ${term}, which is not a safe integer above 0.`)
    check(
      typeof version === 'string' && version !== absentVersion,
      `${call} returned the version ${show(version)}, which is not a non-empty string.`,
    )
    check(
      leaseDurationMs > 0 && leaseDurationMs < 2 ** 31,
      `${call} returned a lease of ${leaseDurationMs} ms, which is not between 0 and 2^31.`,
    )
  }
  if (outcome.ok) {
    check(record !== undefined, `${call} was granted without a record.`)
    check(Number.isFinite(outcome.validForMs), `${call} was granted for ${outcome.validForMs} ms, which is not finite.`)
  } else {
    const { highestTerm, retryAfterMs = 0 } = outcome
    const told = Number.isSafeInteger(highestTerm) && highestTerm >= (record?.term ?? 0)
    check(
      told,
      `${call} was refused with highestTerm ${highestTerm}, which is not a safe integer or is below the record ${show(record)}.`,
    )
    check(
      retryAfterMs >= 0 && retryAfterMs < Infinity,
      `${call} was refused with retryAfterMs ${retryAfterMs}, which is negative or infinite.`,
    )
  }
}

export function check(condition: boolean, message: string): asserts condition {
  ok(condition, message)
}

/** Formats a value for a failure message. */
export function show(value: unknown): string {
  return JSON.stringify(value) ?? String(value)
}

// A store may return records with another prototype, such as that of a database row. Only their content counts.
function plain(value: unknown): unknown {
  return value === undefined ? undefined : JSON.parse(JSON.stringify(value))
}
