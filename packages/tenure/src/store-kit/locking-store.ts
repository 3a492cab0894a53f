/**
 * How a store is built. A class implements the store's own part: where records are, and how they change. One function
 * turns it into a store, a plain object that a program can spread to wrap it: `swapStore` for a server with
 * compare-and-swap, `judgedStore` if a lock or another mechanism excludes concurrent writes, `plainStore` if the store
 * does not use the shared rules. A factory such as `memoryStore()` checks the options and adds what only that store can
 * do.
 */
import type { Clock } from '../common/clock.ts'
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
} from '../engine/lease-store.ts'
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

/** What a store implements if the shared rules judge its claims. */
export interface JudgedPlace {
  readonly expiry: LeaseStore['expiry']
  /** The newest state, for display only: no decision is based on it. */
  find(election: string, call: CallOptions): Promise<Current>
  /**
   * Finds the state, calls `judge`, and writes what it decides. No other write may happen in between: hold a lock, or
   * make the write conditional.
   */
  change(claim: AcquireClaim | HeldClaim, call: CallOptions, judge: (current: Current) => Verdict): Promise<Outcome>
  /**
   * Removes the record unless `judge` refuses, and the highest term if the claim asks for it. Excludes other writes as
   * `change` does.
   */
  forget?(claim: ForgetClaim, call: CallOptions, judge: (current: Current) => Refused | undefined): Promise<Forgotten>
  /** The current state, then each change. */
  watch?(election: string, call: CallOptions): AsyncIterable<LeaseRecord | undefined>
  /** A page of all records, as defined by `LeaseStore.list`. */
  list?(page: Page, call: CallOptions): Promise<ListPage>
  close?(): Promise<void>
}

/** Builds a lease store from an implementation whose claims the shared rules judge. */
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
