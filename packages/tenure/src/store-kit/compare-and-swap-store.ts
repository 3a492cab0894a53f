/**
 * Connects the rules to a server that supports compare-and-swap. A store built on it implements how to find a record,
 * and how to overwrite exactly the state that was found. This module decides when to do which, and what to answer.
 *
 * A call is first tried against the state last seen of the election, so that a renewal takes one round trip. That state
 * is a guess: the server writes only if it is still current, and no refusal is ever answered from it.
 */
import type { Clock } from '../common/clock.ts'
import { TenureError } from '../common/errors.ts'
import type {
  CallOptions,
  ForgetClaim,
  Forgotten,
  LeaseRecord,
  LeaseStore,
  ListPage,
  Outcome,
  Refused,
} from '../engine/lease-store.ts'
import { buildStore, type StoreBackend } from './locking-store.ts'
import type { Page } from './list.ts'
import { granted, refused, shown, type Current, type RecordDraft, type Verdict } from './rules.ts'

/** The outcome of a swap. If the outcome is uncertain, the swap must throw. */
export type SwapOutcome<Found extends Current> =
  /** The draft was written. `found` is the server's new state. */
  | { readonly ok: true; readonly found: Found & { readonly record: LeaseRecord } }
  /**
   * The draft was certainly not written, because the state differed. `found` is the actual state if the server returned
   * it with the refusal. Otherwise it is read with a separate call.
   */
  | { readonly ok: false; readonly found?: Found }

/**
 * The operations that a store implements for its server. `Found` is the state of one election that the rules need, plus
 * anything that a later swap compares or writes back: a revision, the highest term's own revision, a whole object.
 */
export interface SwapServer<Found extends Current> {
  /** `own-clock` only if `remainingMs` is always known from a server clock that cannot jump. */
  readonly expiry: LeaseStore['expiry']
  /** See {@link LeaseStore.checkpointLimitBytes}. */
  readonly checkpointLimitBytes?: number | undefined
  /** See {@link LeaseStore.keepsTerms}. */
  readonly keepsTerms?: boolean | undefined
  /** Returns the newest state, never from a cache or a lagging replica. */
  find(election: string, call: CallOptions): Promise<Found>
  /**
   * Writes `draft` under a new version if the server's state still matches `over`: the same version, or still no record
   * and, if the highest term is kept separately, the same highest term. If the server decides expiry, it also compares
   * whether the lease has expired, by the sign of `over.remainingMs`. A separately kept highest term is raised in the
   * same step.
   */
  swap(election: string, over: Found, draft: RecordDraft, call: CallOptions): Promise<SwapOutcome<Found>>
  /**
   * Removes the record, and with `withTerm` also the highest term, if the server's state still matches `over`. Returns
   * false if it was certainly not removed, because the state differed. If the outcome is uncertain, it must throw.
   */
  remove?(election: string, over: Found, withTerm: boolean, call: CallOptions): Promise<boolean>
  /**
   * The state to assume for a first call: that nothing was ever written. For servers whose refused swap returns the
   * actual state. If undefined, an election that has not been seen yet is read first.
   */
  readonly nothing?: Found
  /** Yields the current state, then each change. */
  watch?(election: string, call: CallOptions): AsyncIterable<Found>
  /** A page of all records, as defined by `LeaseStore.list`. */
  list?(page: Page, call: CallOptions): Promise<ListPage>
  close?(): Promise<void>
}

interface Remembered<Found> {
  readonly found: Found
  readonly atMs: number
}

/** The maximum number of elections whose state is remembered. Others are read before they are written. */
const maxRememberedElections = 10_000

/**
 * Returns a function that gives each request of a call the time that is left. It throws once no time is left, so that
 * nothing more is sent.
 */
function remainingCallOptions(clock: Clock, election: string, call: CallOptions): () => CallOptions {
  const { timeoutMs } = call
  if (timeoutMs === undefined) return () => call
  const deadlineMs = clock.monotonicMs() + timeoutMs
  return () => {
    const leftMs = deadlineMs - clock.monotonicMs()
    if (leftMs > 0) return { ...call, timeoutMs: leftMs }
    const text = `The store did not answer for election "${election}" within ${Math.round(timeoutMs)} ms.`
    throw new TenureError('TIMEOUT', text, { retryable: true })
  }
}

/** A store that can always be closed, even if it has nothing open. */
export interface ClosableStore extends LeaseStore {
  close(): Promise<void>
}

/**
 * Builds a lease store from a server that supports compare-and-swap.
 *
 * @example
 * class MyServer implements SwapServer<Current> {
 *   readonly expiry = 'observed'
 *   find(election: string, call: CallOptions) {} // reads the record and the highest term
 *   swap(election: string, over: Current, draft: RecordDraft, call: CallOptions) {} // writes only over that state
 * }
 * const store = swapStore(new MyServer(), systemClock)
 */
export function swapStore<Found extends Current>(server: SwapServer<Found>, clock: Clock): ClosableStore {
  const backend = new CompareAndSwapBackend(server, clock)
  return { ...buildStore(backend, clock), close: () => backend.close() }
}

class CompareAndSwapBackend<Found extends Current> implements StoreBackend {
  readonly expiry: LeaseStore['expiry']
  readonly checkpointLimitBytes: number | undefined
  readonly keepsTerms: boolean | undefined
  readonly forget?: NonNullable<StoreBackend['forget']>
  readonly watch?: NonNullable<StoreBackend['watch']>
  readonly list?: NonNullable<StoreBackend['list']>
  readonly #server: SwapServer<Found>
  readonly #clock: Clock
  readonly #observed = new Map<string, Remembered<Found>>()

  constructor(server: SwapServer<Found>, clock: Clock) {
    this.#server = server
    this.#clock = clock
    this.expiry = server.expiry
    this.checkpointLimitBytes = server.checkpointLimitBytes
    this.keepsTerms = server.keepsTerms
    const { remove, watch, list } = server
    if (remove) {
      const call = remove.bind(server)
      this.forget = (claim, options, judge) => this.#forget(claim, options, judge, call)
    }
    if (watch) this.watch = (election, call) => this.#watch(election, () => watch.call(server, election, call))
    if (list) this.list = (page, call) => list.call(server, page, call)
  }

  async find(election: string, call: CallOptions): Promise<Found> {
    return this.#note(election, await this.#server.find(election, call))
  }

  async change(
    claim: { readonly election: string; readonly leaseDurationMs: number },
    call: CallOptions,
    judge: (current: Current) => Verdict,
  ): Promise<Outcome> {
    const { election } = claim
    const server = this.#server
    const left = remainingCallOptions(this.#clock, election, call)
    const swap = async (over: Found, verdict: Verdict): Promise<SwapOutcome<Found> | undefined> => {
      if ('answer' in verdict) return undefined
      const swapped = await server.swap(election, over, verdict.write, left())
      this.#note(election, swapped.found)
      return swapped
    }
    const guessed = this.#guess(election)
    const first = guessed && (await swap(guessed, judge(guessed)))
    if (first?.ok) return granted(first.found.record, claim)

    const current = first?.found ?? (await this.find(election, left()))
    const verdict = judge(current)
    if ('answer' in verdict) return verdict.answer
    const second = await swap(current, verdict)
    if (second?.ok) return granted(second.found.record, claim)

    // Another write came in between, so the rules decide on its result instead. That write may come from an earlier
    // call of this same attempt.
    const winner = second?.found ?? (await this.find(election, left()))
    const last = judge(winner)
    return 'answer' in last ? last.answer : refused({ ...winner, record: shown(winner) })
  }

  async close(): Promise<void> {
    await this.#server.close?.()
  }

  /** Does not use the remembered state, because calls are rare and a removal cannot be undone. */
  async #forget(
    { election, withTerm = false }: ForgetClaim,
    call: CallOptions,
    judge: (current: Current) => Refused | undefined,
    remove: NonNullable<SwapServer<Found>['remove']>,
  ): Promise<Forgotten> {
    const left = remainingCallOptions(this.#clock, election, call)
    const current = await this.find(election, left())
    const refusal = judge(current)
    if (refusal) return refusal
    this.#note(election, undefined)
    if (await remove(election, current, withTerm, left())) return { ok: true }
    const winner = await this.find(election, left())
    return judge(winner) ?? refused(winner)
  }

  async *#watch(election: string, open: () => AsyncIterable<Found>) {
    for await (const found of open()) yield shown(this.#note(election, found))
  }

  #note<Seen extends Found | undefined>(election: string, found: Seen): Seen {
    // Moves the election to the end, so that the least recently seen election is forgotten first.
    this.#observed.delete(election)
    if (found) this.#observed.set(election, { found, atMs: this.#clock.monotonicMs() })
    const [oldest] = this.#observed.keys()
    if (this.#observed.size > maxRememberedElections && oldest !== undefined) this.#observed.delete(oldest)
    return found
  }

  #guess(election: string): Found | undefined {
    const observed = this.#observed.get(election)
    const { remainingMs } = observed?.found ?? {}
    if (!observed || remainingMs === undefined) return observed?.found ?? this.#server.nothing
    return { ...observed.found, remainingMs: remainingMs - (this.#clock.monotonicMs() - observed.atMs) }
  }
}
