/**
 * How a store is built. A class is the store's own side of it: where records are, and how they change. One function makes
 * the store of it, a plain object that a program can spread to wrap it: `swapStore` for a server that compares and swaps,
 * `judgedStore` where other writes are kept out in another way, `plainStore` where claims are judged elsewhere. A factory
 * such as `memoryStore()` checks the options, and adds what that store alone can do.
 */
import type { Clock } from '../clock.ts'
import type {
  AcquireClaim,
  CallOptions,
  ForgetClaim,
  Forgotten,
  HeldClaim,
  LeaseRecord,
  LeaseStore,
  ListOptions,
  ListPage,
  Outcome,
  Refused,
} from '../lease-store.ts'
import { pageOf, type Page } from './list.ts'
import {
  judgeAcquire,
  judgeForget,
  judgeRelease,
  judgeRenew,
  leftOf,
  shown,
  type Current,
  type Verdict,
} from './rules.ts'

/** What a store says of the place where its records are, if the rules judge the claims. */
export interface JudgedPlace {
  readonly expiry: LeaseStore['expiry']
  /** The newest state. It is shown, and nothing is decided by it. */
  find(election: string, call: CallOptions): Promise<Current>
  /**
   * Finds the state, lets `judge` decide, and writes what that decides. No other write may come in between: a lock keeps
   * it out, or the write compares.
   */
  change(claim: AcquireClaim | HeldClaim, call: CallOptions, judge: (current: Current) => Verdict): Promise<Outcome>
  /** Removes the record unless `judge` refuses, and the highest term if the claim asks for it. Otherwise as `change`. */
  forget?(claim: ForgetClaim, call: CallOptions, judge: (current: Current) => Refused | undefined): Promise<Forgotten>
  /** The state as it is, then each change. */
  watch?(election: string, call: CallOptions): AsyncIterable<LeaseRecord | undefined>
  /** A page of all records, as `LeaseStore.list` promises it. */
  list?(page: Page, call: CallOptions): Promise<ListPage>
  close?(): Promise<void>
}

/** Makes a lease store of a place whose claims the rules judge. */
export function judgedStore(place: JudgedPlace, clock: Clock): LeaseStore {
  const { forget, watch, list, close } = place
  return {
    expiry: place.expiry,
    terms: true,
    read: async (election, call) => shown(await place.find(election, call)),
    acquire: (claim, call) => place.change(claim, call, (current) => judgeAcquire(current, claim, clock.wallMs())),
    renew: (claim, call) => place.change(claim, call, (current) => judgeRenew(current, claim, clock.wallMs())),
    release: (claim, call) => place.change(claim, call, (current) => judgeRelease(current, claim)),
    ...(place.expiry === 'own-clock' && {
      async look(election: string, call: CallOptions) {
        const found = await place.find(election, call)
        return { record: shown(found), remainingMs: leftOf(found) }
      },
    }),
    ...(forget && {
      forget: (claim: ForgetClaim, call: CallOptions) =>
        forget.call(place, claim, call, (current) => judgeForget(current, claim)),
    }),
    ...(watch && { watch: (election: string, call: CallOptions) => watch.call(place, election, call) }),
    ...(list && { list: async (page: ListOptions, call: CallOptions) => list.call(place, pageOf(page), call) }),
    ...(close && { close: () => close.call(place) }),
  }
}
