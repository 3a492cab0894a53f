/**
 * What is explored: candidates with the Go lock, their requests on the way to the global store, and the store. Data only.
 * All times are in ticks, relative to now. Relays are only the time that a request and its answer take: nothing that a
 * candidate believes depends on what a relay remembers, and no relay can watch a version for longer than it exists.
 */
import type { AcquireClaim, HeldClaim, LeaseRecord, Outcome } from '../../../../tenure/src/engine/lease-store.ts'

/** What may go wrong. */
export const lockFaults = ['late', 'lost', 'unheard', 'doubled', 'stall', 'crash', 'stop'] as const

/**
 * - `late`: a request takes any time, and its candidate may give it up meanwhile.
 * - `lost`: a request never arrives.
 * - `unheard`: a request is carried out, and its candidate hears nothing.
 * - `doubled`: a request is carried out twice, the second time at any time.
 * - `stop`: a leader releases its lease, and campaigns again.
 */
export type LockFault = (typeof lockFaults)[number]

/** A mistake that a lock could make. */
export type LockMistake =
  | 'ignore the bound'
  | 'count a grant that a repeated request found'
  | 'keep the attempt after a release'
  | 'count a refusal that shows its own lease'
  | 'take the lease for one duration without the bound'

/** What does not change. */
export interface Setup {
  /** As client-go has it. It believes for this long after a confirmation. */
  readonly leaseTicks: number
  readonly boundTicks: number
  readonly retryTicks: number
  /** The cluster of each candidate. */
  readonly candidates: readonly number[]
  readonly faults: ReadonlySet<LockFault>
  readonly budget: number
  readonly mistake: LockMistake | undefined
}

/** One request. */
export interface Request {
  readonly who: number
  readonly id: string
  readonly claim:
    | { readonly verb: 'acquire'; readonly of: AcquireClaim }
    | { readonly verb: 'renew' | 'release'; readonly of: HeldClaim }
}

/** The call that a candidate waits for. */
export interface Waits {
  readonly id: string
  readonly verb: 'acquire' | 'renew' | 'release'
  readonly sentTicks: number
  /** The attempt was sent for the first time. */
  readonly isFirst: boolean
  readonly answer?: Outcome | undefined
}

export interface Candidate {
  readonly life: 'down' | 'running' | 'stalled'
  readonly nextTicks: number
  readonly waits?: Waits | undefined
  readonly pending?:
    | {
        readonly id: string
        readonly afterTerm: number
        /** It was released: only a lock with that mistake keeps it. */
        readonly isReleased?: boolean
      }
    | undefined
  readonly grant?: { readonly attempt: string; readonly term: number; readonly version: string } | undefined
  readonly highestTerm: number
  /** The term that client-go believes in. 0: none. */
  readonly term: number
  /** When Update returned. */
  readonly returnedTicks: number
}

export interface Scene {
  readonly record: LeaseRecord | undefined
  readonly highestTerm: number
  /** When the newest version was written. */
  readonly writtenTicks: number
  readonly candidates: readonly Candidate[]
  /** Requests that are to be carried out at once, and such that may come at any time. */
  readonly requests: readonly Request[]
  readonly late: readonly Request[]
  readonly budget: number
  /** Processes begin, and go on, only before anything else of a tick. */
  readonly dawn: boolean
  /** Whose each term was that somebody believed in; only the highest. */
  readonly believed: { readonly term: number; readonly who: number }
  readonly names: number
}

export const down: Candidate = { life: 'down', nextTicks: 0, highestTerm: 0, term: 0, returnedTicks: 0 }

export function firstScene({ candidates, budget }: Setup): Scene {
  return {
    record: undefined,
    highestTerm: 0,
    writtenTicks: 0,
    candidates: candidates.map(() => down),
    requests: [],
    late: [],
    budget,
    dawn: true,
    believed: { term: 0, who: 0 },
    names: 0,
  }
}

/** client-go's retry period and deadline together may be as long as the lease, and are here. */
export function believes({ life, term, returnedTicks }: Candidate, { leaseTicks }: Setup): boolean {
  return life !== 'down' && term > 0 && returnedTicks + leaseTicks > 0
}

export function withAt<T>(list: readonly T[], index: number, element: T): readonly T[] {
  return list.map((one, at) => (at === index ? element : one))
}
