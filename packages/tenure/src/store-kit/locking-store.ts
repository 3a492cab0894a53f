/**
 * How a store is built. A class implements the part that is specific to the store: where records are, and how they
 * change. One of three functions turns it into a store, a plain object that a program can spread to wrap it:
 * `swapStore` for a server with compare-and-swap, `buildStore` if a lock or another mechanism excludes concurrent
 * writes, and `plainStore` if the store does not use the shared rules. A factory such as `memoryStore()` checks the
 * options and adds features that only that store has.
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
  remainingMsOf,
  shown,
  type Current,
  type Verdict,
} from './rules.ts'

/** The operations that a store implements if the shared rules decide its claims. */
export interface StoreBackend {
  readonly expiry: LeaseStore['expiry']
  /** See {@link LeaseStore.checkpointLimitBytes}. */
  readonly checkpointLimitBytes?: number | undefined
  /** See {@link LeaseStore.keepsTerms}. */
  readonly keepsTerms?: boolean | undefined
  /** Returns the newest state, for display only: no decision is based on it. */
  find(election: string, call: CallOptions): Promise<Current>
  /**
   * Finds the state, calls `judge`, and writes the record that `judge` returns. No other write may happen in between,
   * so hold a lock or make the write conditional.
   */
  change(claim: AcquireClaim | HeldClaim, call: CallOptions, judge: (current: Current) => Verdict): Promise<Outcome>
  /**
   * Removes the record unless `judge` refuses, and the highest term if the claim asks for it. Excludes other writes as
   * `change` does.
   */
  forget?(claim: ForgetClaim, call: CallOptions, judge: (current: Current) => Refused | undefined): Promise<Forgotten>
  /** Yields the current state, then each change. */
  watch?(election: string, call: CallOptions): AsyncIterable<LeaseRecord | undefined>
  /** A page of all records, as defined by `LeaseStore.list`. */
  list?(page: Page, call: CallOptions): Promise<ListPage>
  close?(): Promise<void>
}

/**
 * Builds a lease store from an implementation whose claims are decided by the shared rules.
 *
 * @example
 * const place: StoreBackend = {
 *   expiry: 'observed',
 *   find: (election) => table.read(election),
 *   change: (claim, call, judge) => table.locked(claim.election, (row) => row.apply(judge(row.current))),
 * }
 * const store = buildStore(place, systemClock)
 */
export function buildStore(backend: StoreBackend, clock: Clock): LeaseStore {
  const { forget, watch, list, close, checkpointLimitBytes, keepsTerms } = backend
  return {
    expiry: backend.expiry,
    terms: true,
    ...(checkpointLimitBytes !== undefined && { checkpointLimitBytes }),
    ...(keepsTerms !== undefined && { keepsTerms }),
    read: async (election, call) => shown(await backend.find(election, call)),
    acquire: (claim, call) => backend.change(claim, call, (current) => judgeAcquire(current, claim, clock.wallMs())),
    renew: (claim, call) => backend.change(claim, call, (current) => judgeRenew(current, claim, clock.wallMs())),
    release: (claim, call) => backend.change(claim, call, (current) => judgeRelease(current, claim)),
    ...(backend.expiry === 'own-clock' && {
      async look(election: string, call: CallOptions) {
        const found = await backend.find(election, call)
        return { record: shown(found), remainingMs: remainingMsOf(found) }
      },
    }),
    ...(forget && {
      forget: (claim: ForgetClaim, call: CallOptions) =>
        forget.call(backend, claim, call, (current) => judgeForget(current, claim)),
    }),
    ...(watch && { watch: (election: string, call: CallOptions) => watch.call(backend, election, call) }),
    ...(list && { list: async (page: ListOptions, call: CallOptions) => list.call(backend, pageOf(page), call) }),
    ...(close && { close: () => close.call(backend) }),
  }
}
