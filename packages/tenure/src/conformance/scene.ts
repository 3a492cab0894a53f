import { AssertionError, deepStrictEqual, fail, ok } from 'node:assert/strict'
import { systemClock } from '../clock.ts'
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
} from '../lease-store.ts'
import { checkStore } from '../options.ts'
import { checkMembers } from '../options/check-options.ts'

/**
 * A store, and what the suite may do to it. It must hold no record of the elections `constructor` and `__proto__` that
 * is still held; all other names are random, so data of earlier runs does no harm.
 */
export interface StoreUnderTest {
  readonly store: LeaseStore
  /**
   * Lets exactly this much time pass on the store's clock, which stands still otherwise. Left out, the suite waits in
   * real time and judges less sharply.
   */
  readonly pass?: ((ms: number) => void | Promise<void>) | undefined
  /** Deletes the election's record behind the store's back, as an operator would. */
  readonly remove?: ((election: string) => void | Promise<void>) | undefined
  /** True if the highest term goes when the record is removed. By default it must outlive the record. */
  readonly forgetsTerms?: boolean | undefined
  /** True if a renewal that asks for less leaves the lease as long as it was promised. By default it gets shorter. */
  readonly keepsPromises?: boolean | undefined
  /** The highest term that the store can write. Default: the last safe integer. */
  readonly lastTerm?: number | undefined
  /** How far above the highest term of an election a claim may be, if there is a bound; more is an error. */
  readonly mostTermsAhead?: number | undefined
  /** How many bytes of UTF-8 a holder may have at most, if it is less than the library's 256. */
  readonly longestHolderBytes?: number | undefined
  /** A second handle onto the same data, as another process would have. */
  readonly open?: (() => LeaseStore | Promise<LeaseStore>) | undefined
  /** Ends everything, after each case. By default the store's own `close`. */
  readonly close?: (() => void | Promise<void>) | undefined
}

/** How patient the suite is, and how long the leases are that it lets run out. */
export interface ConformanceOptions {
  /** A call or event that takes longer in real time has failed. 5 s unless given. */
  readonly patienceMs?: number | undefined
  /** 10 s where `pass` is given, else half a second. */
  readonly leaseDurationMs?: number | undefined
}

const optionalMembers = [
  'pass',
  'remove',
  'forgetsTerms',
  'keepsPromises',
  'lastTerm',
  'mostTermsAhead',
  'longestHolderBytes',
  'open',
  'close',
]

// A lease that no case lets run out, however slow the machine is.
const longLeaseMs = 60_000
// Server clocks that count in coarse steps may free a lease a little late.
const realTimeSlackMs = 50

/** One case's store, election and time. */
export class Scene {
  readonly under: StoreUnderTest
  readonly store: LeaseStore
  readonly election = `conformance ${systemClock.randomId()}`
  readonly leaseDurationMs: number
  /** Whether time stands still but for `pass`. */
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

  /** Passes a moment at which a lease has ended for certain. */
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

  /** Fails if a promise does not settle in time: the error names the call that hung. */
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

  /** A claim of an attempt never seen before. */
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

  /** Acquires, and must be granted. */
  async grant(change: Partial<AcquireClaim> = {}, why = 'The election is free.'): Promise<Granted> {
    return granted('acquire', await this.acquire(change), why)
  }

  /** Acquires too early: fails if it was granted before `momentMs`. Tells whether the lease was still held. */
  async stillHeld(momentMs: number, change: Partial<AcquireClaim>, why: string): Promise<boolean> {
    const outcome = await this.acquire(change)
    const earlyMs = momentMs - this.nowMs()
    if (outcome.ok && earlyMs > 0) fail(`acquire was granted ${earlyMs} ms too early: ${show(outcome)}. ${why}`)
    return !outcome.ok
  }

  /** The record in the store must be exactly this one. Stores without lasting terms cannot read. */
  async expectStored(expected: LeaseRecord | undefined, why: string): Promise<void> {
    if (this.store.terms) same('The stored record', await this.read(), expected, why)
  }
}

/** For a claim on an election without a record, of a candidate that has seen a term and has waited since. */
export function unseen(afterTerm: number): Partial<AcquireClaim> {
  return { afterTerm, expiredVersion: absentVersion }
}

/** The claim that names a record's grant and version. */
export function held(record: LeaseRecord, change: Partial<HeldClaim> = {}): HeldClaim {
  const { election, holder, attempt, term, version, leaseDurationMs } = record
  return { election, holder, attempt, term, version, leaseDurationMs, ...change }
}

/** The outcome must be a grant. */
export function granted(call: string, outcome: Outcome, why: string): Granted {
  if (outcome.ok) return outcome
  return fail(`${call} was refused: ${show(outcome)}. ${why}`)
}

/** The outcome must be a refusal. */
export function refused(call: string, outcome: Outcome, why: string): Refused {
  if (!outcome.ok) return outcome
  return fail(`${call} was granted: ${show(outcome)}. ${why}`)
}

/** Two values must be deeply equal. */
export function same(what: string, actual: unknown, expected: unknown, why: string): void {
  try {
    deepStrictEqual(plain(actual), plain(expected))
  } catch {
    fail(`${what} is ${show(actual)}, expected ${show(expected)}. ${why}`)
  }
}

/** Whatever a store answers, an engine must be able to count with it. */
function checkShape(call: string, outcome: Outcome): void {
  const { ok: done, record } = outcome
  check(typeof done === 'boolean', `${call} answered ${show(outcome)}: "ok" is neither true nor false.`)
  if (record) {
    const { term, version, leaseDurationMs } = record
    check(Number.isSafeInteger(term) && term > 0, `${call} showed term ${term}, not a safe integer above 0.`)
    check(typeof version === 'string' && version !== absentVersion, `${call} showed ${show(version)} as version.`)
    check(leaseDurationMs > 0 && leaseDurationMs < 2 ** 31, `${call} showed a lease of ${leaseDurationMs} ms.`)
  }
  if (outcome.ok) {
    check(record !== undefined, `${call} was granted without a record.`)
    check(Number.isFinite(outcome.validForMs), `${call} was granted for ${outcome.validForMs} ms.`)
  } else {
    const { highestTerm, retryAfterMs = 0 } = outcome
    const told = Number.isSafeInteger(highestTerm) && highestTerm >= (record?.term ?? 0)
    check(told, `${call} was refused with highestTerm ${highestTerm} and ${show(record)}.`)
    check(retryAfterMs >= 0 && retryAfterMs < Infinity, `${call} was refused with retryAfterMs ${retryAfterMs}.`)
  }
}

/** Something must hold. */
export function check(condition: boolean, message: string): asserts condition {
  ok(condition, message)
}

/** A value for a failure message. */
export function show(value: unknown): string {
  return JSON.stringify(value) ?? String(value)
}

// A store may build records with another prototype (a database row's, for one); only their content counts.
function plain(value: unknown): unknown {
  return value === undefined ? undefined : JSON.parse(JSON.stringify(value))
}
