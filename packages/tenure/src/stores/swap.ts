/**
 * The seam between the rules and a server that compares and swaps. A store built on it says how a record is found and how
 * one is written over exactly what was found; which of the two is asked for, and what is answered, is decided here, once.
 *
 * A call is first tried on what was last seen of the election, which makes a renewal one round trip. That is a guess: the
 * server writes only if it is still true, and no refusal is ever answered from it.
 */
import type { Clock } from '../clock.ts'
import { TenureError } from '../errors.ts'
import type {
  CallOptions,
  ForgetClaim,
  Forgotten,
  LeaseRecord,
  LeaseStore,
  ListPage,
  Outcome,
  Refused,
} from '../lease-store.ts'
import { judgedStore, type JudgedPlace } from './judged.ts'
import type { Page } from './list.ts'
import { granted, refused, shown, type Current, type Draft, type Verdict } from './rules.ts'

/** What became of a swap. An uncertain outcome is neither: it must throw. */
export type Swapped<Found extends Current> =
  /** Written; `found` is what the server now has. */
  | { readonly ok: true; readonly found: Found & { readonly record: LeaseRecord } }
  /**
   * Not written, for certain, because something else was there. `found` is what is there, if the server gave it together
   * with the refusal; otherwise it is read by a call of its own.
   */
  | { readonly ok: false; readonly found?: Found }

/**
 * What a store says of its server. `Found` is what the rules must know of one election, and whatever else a later swap
 * compares or writes back: a revision, the highest term's own revision, a whole object.
 */
export interface SwapServer<Found extends Current> {
  /** `own-clock` only if `remainingMs` is always known, by a clock of the server that cannot step. */
  readonly expiry: LeaseStore['expiry']
  /** The newest state, never one from a cache or a lagging replica. */
  find(election: string, call: CallOptions): Promise<Found>
  /**
   * Writes `draft`, under a new version, if the server still has what `over` says: the same version, or still no record
   * and, where it is kept apart, the same highest term. Where the server judges expiry, it also compares whether the
   * lease has run out, by the sign of `over.remainingMs`. A highest term kept apart is raised in the same step.
   */
  swap(election: string, over: Found, draft: Draft, call: CallOptions): Promise<Swapped<Found>>
  /**
   * Removes the record, and the highest term with it if `withTerm`, if the server still has what `over` says. False: not
   * removed, for certain, because something else was there. An uncertain outcome must throw.
   */
  remove?(election: string, over: Found, withTerm: boolean, call: CallOptions): Promise<boolean>
  /**
   * What a first call guesses, that nothing was ever written, where a refused swap shows what is there. Without it, an
   * election that was not seen yet is read first.
   */
  readonly nothing?: Found
  /** The state as it is, then each change. */
  watch?(election: string, call: CallOptions): AsyncIterable<Found>
  /** A page of all records, as `LeaseStore.list` promises it. */
  list?(page: Page, call: CallOptions): Promise<ListPage>
  close?(): Promise<void>
}

interface Remembered<Found> {
  readonly found: Found
  readonly atMs: number
}

/** How many elections are remembered; the others are read before they are written. */
const remembered = 10_000

/** What is left of a call's time, for each of the requests that it takes. Once it has run out, nothing more is sent. */
function leftBy(clock: Clock, election: string, call: CallOptions): () => CallOptions {
  const { timeoutMs } = call
  if (timeoutMs === undefined) return () => call
  const deadlineMs = clock.monotonicMs() + timeoutMs
  return () => {
    const leftMs = deadlineMs - clock.monotonicMs()
    if (leftMs > 0) return { ...call, timeoutMs: leftMs }
    const text = `The store has not answered for election "${election}" within ${Math.round(timeoutMs)} ms.`
    throw new TenureError('TIMEOUT', text, { retryable: true })
  }
}

/** A store that can always be closed, even one that has nothing open. */
export interface ClosableStore extends LeaseStore {
  close(): Promise<void>
}

/** Makes a lease store of a server that compares and swaps. */
export function swapStore<Found extends Current>(server: SwapServer<Found>, clock: Clock): ClosableStore {
  const place = new SwapPlace(server, clock)
  return { ...judgedStore(place, clock), close: () => place.close() }
}

class SwapPlace<Found extends Current> implements JudgedPlace {
  readonly expiry: LeaseStore['expiry']
  readonly forget?: NonNullable<JudgedPlace['forget']>
  readonly watch?: NonNullable<JudgedPlace['watch']>
  readonly list?: NonNullable<JudgedPlace['list']>
  readonly #server: SwapServer<Found>
  readonly #clock: Clock
  readonly #sights = new Map<string, Remembered<Found>>()

  constructor(server: SwapServer<Found>, clock: Clock) {
    this.#server = server
    this.#clock = clock
    this.expiry = server.expiry
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
    const left = leftBy(this.#clock, election, call)
    const swap = async (over: Found, verdict: Verdict): Promise<Swapped<Found> | undefined> => {
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

    // Another write came in between, and what it left is judged instead: it may be this very attempt, by an earlier call.
    const winner = second?.found ?? (await this.find(election, left()))
    const last = judge(winner)
    return 'answer' in last ? last.answer : refused({ ...winner, record: shown(winner) })
  }

  async close(): Promise<void> {
    await this.#server.close?.()
  }

  /** Not by a guess: it is rare, and what it removes is gone. */
  async #forget(
    { election, withTerm = false }: ForgetClaim,
    call: CallOptions,
    judge: (current: Current) => Refused | undefined,
    remove: NonNullable<SwapServer<Found>['remove']>,
  ): Promise<Forgotten> {
    const left = leftBy(this.#clock, election, call)
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
    // At the end again: the election that was not seen for the longest time is the first to be forgotten.
    this.#sights.delete(election)
    if (found) this.#sights.set(election, { found, atMs: this.#clock.monotonicMs() })
    const [oldest] = this.#sights.keys()
    if (this.#sights.size > remembered && oldest !== undefined) this.#sights.delete(oldest)
    return found
  }

  #guess(election: string): Found | undefined {
    const sight = this.#sights.get(election)
    const { remainingMs } = sight?.found ?? {}
    if (!sight || remainingMs === undefined) return sight?.found ?? this.#server.nothing
    return { ...sight.found, remainingMs: remainingMs - (this.#clock.monotonicMs() - sight.atMs) }
  }
}
