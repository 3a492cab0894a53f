/** What the algorithm of `election.ts` takes, remembers and gives. What it remembers is data: `election-fields.ts`. */
import type { LossReason } from './errors.ts'
import type { AcquireClaim, HeldClaim, LeaseRecord, Metadata, Outcome } from './lease-store.ts'
import { holderShareMs, type Timings } from './timings.ts'

/** What an elector is set to do. Constant for its life. */
export interface Settings extends Timings {
  readonly election: string
  readonly identity: string
  readonly metadata: Metadata
  readonly drainTimeoutMs: number
  readonly releaseOnStop: boolean
  readonly canWatch: boolean
  readonly terms: boolean
  readonly until: 'stopped' | 'unanswered' | 'lost' | 'busy' | 'refused'
}

/** Why an elector stopped by itself: another process's record, or the failure of a call. */
export type GaveUp = { readonly record: LeaseRecord | undefined } | { readonly error: unknown }

/**
 * What happened, and when. `fresh` makes a name that nothing else has, not even a clone of this process: from nothing that
 * clones share. `chance` gives a number of at least 0 and below 1, for what is spread.
 */
export interface Moment {
  readonly nowMs: number
  readonly sleptMs: number
  fresh(): string
  chance(): number
}

/** What the algorithm is told. */
export type Input = Moment &
  (
    | { readonly type: 'start' | 'stop' | 'wake' | 'watch-ended' }
    /** Everything that listens to the end of a leadership has been called. */
    | { readonly type: 'end-told' }
    | { readonly type: 'step-down'; readonly cooldownMs: number }
    | { readonly type: 'answer'; readonly call: number; readonly outcome: Outcome }
    | { readonly type: 'found'; readonly call: number; readonly record: LeaseRecord | undefined }
    | { readonly type: 'failed'; readonly call: number; readonly error: unknown }
    | { readonly type: 'observed'; readonly record: LeaseRecord | undefined }
    | { readonly type: 'work'; readonly pending: number }
    | { readonly type: 'carry'; readonly text: string }
  )

/** A store call to make. An answer after `boundMs` is dropped, and the call counts as failed. */
export type Call = { readonly id: number; readonly boundMs: number } & (
  | { readonly verb: 'acquire'; readonly claim: AcquireClaim }
  | { readonly verb: 'renew' | 'release'; readonly claim: HeldClaim }
  | { readonly verb: 'read' }
)

/** What the driver has to do, in this order. */
export type Effect =
  | { readonly type: 'call'; readonly call: Call }
  | { readonly type: 'cancel' }
  | { readonly type: 'watch'; readonly open: boolean }
  | { readonly type: 'new-leader'; readonly record: LeaseRecord }
  | { readonly type: 'elected'; readonly record: LeaseRecord }
  | { readonly type: 'renewed'; readonly record: LeaseRecord }
  | { readonly type: 'renew-failed'; readonly term: number; readonly failures: number; readonly error: unknown }
  | { readonly type: 'ended'; readonly reason: LossReason }
  | { readonly type: 'lost'; readonly term: number; readonly reason: LossReason }
  | { readonly type: 'carried'; readonly text: string }
  | { readonly type: 'error'; readonly error: unknown }
  | { readonly type: 'release-failed'; readonly error: unknown }
  | { readonly type: 'stepped-down' | 'stopped' }

/** A grant this elector believes in, or is winding down. `sentAtMs` counts sleep. */
export interface Grant {
  readonly record: LeaseRecord
  readonly sentAtMs: number
  readonly validForMs: number
  readonly failures: number
  readonly adoptions: number
  /** Counts sleep, like `sentAtMs`. */
  readonly renewAtMs: number
}

/** An attempt of this elector, and the marks of its writes: what shows another mark was written by somebody else. */
export interface OwnAttempt {
  readonly id: string
  /** The newest that a record has shown. */
  readonly seen: readonly string[]
  /** The newest that were sent since. */
  readonly sent: readonly string[]
}

/** What a contender knows: a record, or that there is none although a term was granted. */
export interface View {
  readonly record: LeaseRecord | undefined
  /** When this version was first seen; seeing it again never moves it (I10). */
  readonly seenAtMs: number
  readonly holdsForMs: number
  /** When the store itself said that a try is worth while. */
  readonly retryAtMs: number | undefined
}

/** When a version was first seen. */
export interface Sight {
  readonly key: string
  readonly atMs: number
}

/** An acquire that was sent and may be granted. */
export interface Attempt {
  /** Also the mark of its write. */
  readonly id: string
  /** Counts sleep: belief in a grant runs from here. */
  readonly firstSentAtMs: number
  /** The highest term known when it was first sent: no sound store grants it that one or a lower one. */
  readonly afterTerm: number
  /** The highest term known to belong to anything else: a grant at or below it is not believed. */
  readonly floorTerm: number
}

/** The one store call in flight. `sentAtMs` counts sleep, `startedAtMs` does not. */
export interface Flight {
  readonly id: number
  readonly verb: Call['verb']
  readonly sentAtMs: number
  readonly startedAtMs: number
  readonly carry: string | undefined
}

/** Leadership that is over, while its work winds down and its lease is given back. */
export interface Ending {
  readonly term: number
  readonly reason: LossReason
  readonly next: 'campaign' | 'stop'
  /** Step down and stop keep the lease alive while work winds down, then give it back. */
  readonly voluntary: boolean
  /** Whether everything that listens to the end has been called. Until then more work may be handed in. */
  readonly told: boolean
  readonly drainUntilMs: number
  /** Set once the release was sent. */
  readonly releaseUntilMs: number | undefined
  /** How long a step-down keeps its elector out, from its release. */
  readonly cooldownMs: number
}

/** All that the algorithm remembers. */
export interface ElectionState {
  readonly settings: Settings
  readonly phase: 'idle' | 'standby' | 'leading' | 'ending' | 'stopped'
  readonly nowMs: number
  readonly sleptMs: number
  readonly highestTerm: number
  readonly announcedTerm: number
  /** The newest attempts of this elector: tells its own abandoned ones from all others. */
  readonly own: readonly OwnAttempt[]
  readonly calls: number
  readonly work: number
  readonly flight: Flight | undefined
  readonly attempt: Attempt | undefined
  readonly view: View | undefined
  /** Versions seen lately, so that a replayed one is known for what it is. */
  readonly seen: readonly Sight[]
  /** The version that the store itself last answered with. No flood of replayed events can push it out. */
  readonly confirmed: Sight | undefined
  readonly repliedAtMs: number
  /** When the first write was sent that has failed since the store was last known to take writes. */
  readonly writeFailedAtMs: number | undefined
  /** How long the last answer took. An acquire may be two requests: a store that has to read first. */
  readonly answeredInMs: number
  /** The duration of the newest record seen; 0 before the first. */
  readonly lastDurationMs: number
  readonly tryAtMs: number
  /** When it began to contend. */
  readonly contendsSinceMs: number
  readonly refusals: number
  readonly cooldownUntilMs: number
  readonly stopUntilMs: number | undefined
  readonly gaveUp: GaveUp | undefined
  readonly watch: 'closed' | 'open' | 'broken'
  readonly rewatchAtMs: number
  readonly grant: Grant | undefined
  readonly carry: string | undefined
  readonly ending: Ending | undefined
}

/** A state under construction, inside one step. */
export type Draft = { -readonly [K in keyof ElectionState]: ElectionState[K] }

/** The state before `start`. */
export function initialState(settings: Settings): ElectionState {
  return {
    settings,
    phase: 'idle',
    nowMs: 0,
    sleptMs: 0,
    highestTerm: 0,
    // Other programs that share a record may begin at term 0.
    announcedTerm: -1,
    own: [],
    calls: 0,
    work: 0,
    flight: undefined,
    attempt: undefined,
    view: undefined,
    seen: [],
    confirmed: undefined,
    repliedAtMs: 0,
    writeFailedAtMs: undefined,
    answeredInMs: 0,
    lastDurationMs: 0,
    tryAtMs: 0,
    contendsSinceMs: 0,
    refusals: 0,
    cooldownUntilMs: -Infinity,
    stopUntilMs: undefined,
    gaveUp: undefined,
    watch: 'closed',
    rewatchAtMs: 0,
    grant: undefined,
    carry: undefined,
    ending: undefined,
  }
}

/** Whether this state means leadership at a moment. Computed at each call; never a flag that a timer must clear (I1). */
export function leadsAt(state: ElectionState, heldMs: number): boolean {
  return state.phase === 'leading' && heldMs < deadlineOf(state)
}

/** When `isLeader()` turns false unless renewed, on the clock that counts sleep. */
export function deadlineOf({ grant, settings }: ElectionState): number {
  if (!grant) return -Infinity
  return grant.sentAtMs + settings.renewDeadlineMs * shareOf(settings, grant.validForMs)
}

/** A store may grant less than was asked for; then everything that a leader does comes that much sooner. */
export function shareOf(settings: Settings, validForMs: number): number {
  return Math.min(1, validForMs / settings.leaseDurationMs)
}

/** When others may lead at the earliest, on the clock that counts sleep. */
export function beliefEndOf({ grant, settings }: ElectionState): number {
  return grant ? grant.sentAtMs + holderShareMs(grant.validForMs, settings.driftRatio) : -Infinity
}

/**
 * Whether a renewal can bring a text along: while leading, and while renewals go on for work that winds down. That work
 * has not settled, so nothing is released under it.
 */
export function canCarry(s: ElectionState, heldMs: number): boolean {
  const { ending } = s
  const windsDown = s.phase === 'ending' && ending?.voluntary && ending.releaseUntilMs === undefined && s.work > 0
  return (s.phase === 'leading' || windsDown === true) && heldMs < deadlineOf(s)
}

/** Whether a standby is notified of changes, and need not ask for them. */
export function isWatching({ watch }: ElectionState): boolean {
  return watch === 'open'
}

/** The granularity of times that are converted between the two clocks. */
const finestMs = 0.001

/**
 * A moment of the clock that counts sleep, on the monotonic one. Rounding must not make it early: a timer would fire before
 * what it was set for is due, and be set to the same moment again, for ever where time stands still between two timers.
 */
function awakeAt({ sleptMs }: ElectionState, heldMs: number): number {
  const atMs = heldMs - sleptMs
  return atMs + sleptMs < heldMs ? atMs + finestMs : atMs
}

/** When the driver must send a `wake`, on the monotonic clock; undefined if only a call or an event can change things. */
export function nextWakeMs(s: ElectionState): number | undefined {
  const at: number[] = []
  if (s.phase === 'standby') {
    const waits = s.stopUntilMs === undefined && isWatching(s)
    if (!s.flight) at.push(waits ? Math.max(s.tryAtMs, s.cooldownUntilMs) : s.tryAtMs)
    if (s.stopUntilMs !== undefined) at.push(s.stopUntilMs)
    if (s.watch === 'broken') at.push(s.rewatchAtMs)
  }
  if (s.phase === 'leading') at.push(awakeAt(s, deadlineOf(s)))
  const releasing = s.ending?.releaseUntilMs !== undefined
  const renewing = s.phase === 'leading' || (s.ending?.voluntary && !releasing)
  if (s.grant && !s.flight && renewing) at.push(awakeAt(s, s.grant.renewAtMs))
  if (s.ending && !releasing) at.push(s.ending.drainUntilMs)
  // A text that no renewal can bring along any more is waited for in vain.
  if (s.ending && s.carry !== undefined && s.grant) at.push(awakeAt(s, deadlineOf(s)))
  if (releasing && !s.flight) at.push(s.tryAtMs)
  const next = Math.min(...at, Infinity)
  return next === Infinity ? undefined : next
}
