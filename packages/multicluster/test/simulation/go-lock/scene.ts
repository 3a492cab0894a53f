/**
 * The model state: candidates with the Go lock, their requests to the global store, and the store. Data only. All times
 * are in ticks, relative to now. Relays are modeled only by the time that a request and its answer take, because no
 * belief of a candidate depends on what a relay remembers, and no relay can watch a version for longer than it exists.
 */
import type { AcquireClaim, HeldClaim, LeaseRecord, Outcome } from '../../../../tenure/src/engine/lease-store.ts'

/** The faults that may occur. */
export const lockFaults = ['late', 'lost', 'unheard', 'doubled', 'stall', 'crash', 'stop'] as const

/**
 * - `late`: a request may take any time, and its candidate may give up in the meantime.
 * - `lost`: a request never arrives.
 * - `unheard`: a request is carried out, but its candidate gets no answer.
 * - `doubled`: a request is carried out twice, the second time at any later time.
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

/** The constant parameters. */
export interface Setup {
  /** The lease duration of client-go. A candidate believes for this long after a confirmation. */
  readonly leaseTicks: number
  readonly boundTicks: number
  readonly retryTicks: number
  /** The cluster of each candidate. */
  readonly candidates: readonly number[]
  readonly faults: ReadonlySet<LockFault>
  readonly budget: number
  readonly mistake: LockMistake | undefined
}

/** A request from a candidate. */
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
  /** Whether the attempt was sent for the first time. */
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
        /**
         * Whether the attempt's lease was released. Only a lock with the corresponding mistake keeps such an attempt.
         */
        readonly isReleased?: boolean
      }
    | undefined
  readonly grant?: { readonly attempt: string; readonly term: number; readonly version: string } | undefined
  readonly highestTerm: number
  /** The term that client-go believes in, or 0 if it does not lead. */
  readonly term: number
  /** When client-go's Update returned. */
  readonly returnedTicks: number
}

export interface Scene {
  readonly record: LeaseRecord | undefined
  readonly highestTerm: number
  /** When the newest version was written. */
  readonly writtenTicks: number
  readonly candidates: readonly Candidate[]
  /** Requests that are carried out in this tick, and requests that may arrive at any time. */
  readonly requests: readonly Request[]
  readonly late: readonly Request[]
  readonly budget: number
  /** Whether nothing has happened in this tick so far. Processes start and continue only at this point. */
  readonly dawn: boolean
  /** The highest term that any candidate believed in, and that candidate. */
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

/**
 * client-go allows a retry period and a deadline that together are as long as the lease. The model uses this worst
 * case.
 */
export function believes({ life, term, returnedTicks }: Candidate, { leaseTicks }: Setup): boolean {
  return life !== 'down' && term > 0 && returnedTicks + leaseTicks > 0
}

export function withAt<T>(list: readonly T[], index: number, element: T): readonly T[] {
  return list.map((one, at) => (at === index ? element : one))
}
