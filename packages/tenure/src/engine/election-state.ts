/**
 * The inputs, the state, and the effects of the algorithm in `election.ts`. The state is plain data: see
 * `election-fields.ts`.
 */
import type { LossReason } from '../common/errors.ts'
import type { AcquireClaim, HeldClaim, LeaseRecord, Metadata, Outcome } from './lease-store.ts'
import { holderShareMs, type Timings } from './timings.ts'

/** An elector's configuration, constant for its lifetime. */
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

/** Why an elector stopped on its own: another process's record, or a call that failed. */
export type StopCause = { readonly record: LeaseRecord | undefined } | { readonly error: unknown }

/**
 * The time and the randomness of an input. `fresh` returns a unique name. It uses nothing that clones of this process
 * share, so that not even a clone gets the same name. `chance` returns a number of at least 0 and below 1, for jitter.
 */
export interface Moment {
  readonly nowMs: number
  readonly sleptMs: number
  fresh(): string
  chance(): number
}

/** What the algorithm reacts to. */
export type Input = Moment &
  (
    | { readonly type: 'start' | 'stop' | 'wake' | 'watch-ended' }
    /** All listeners of the end of a leadership have been called. */
    | { readonly type: 'end-told' }
    | { readonly type: 'step-down'; readonly cooldownMs: number }
    | { readonly type: 'answer'; readonly call: number; readonly outcome: Outcome }
    | { readonly type: 'found'; readonly call: number; readonly record: LeaseRecord | undefined }
    | { readonly type: 'failed'; readonly call: number; readonly error: unknown }
    | { readonly type: 'observed'; readonly record: LeaseRecord | undefined }
    | { readonly type: 'work'; readonly pending: number }
    | { readonly type: 'carry'; readonly text: string }
  )

/** A store call to make. After `boundMs` the call counts as failed, and a later answer is dropped. */
export type Call = { readonly id: number; readonly boundMs: number } & (
  | { readonly verb: 'acquire'; readonly claim: AcquireClaim }
  | { readonly verb: 'renew' | 'release'; readonly claim: HeldClaim }
  | { readonly verb: 'read' }
)

/** What the driver must do, in this order. */
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

/** A grant that this elector leads by or is winding down. `sentAtMs` counts sleep. */
export interface Grant {
  readonly record: LeaseRecord
  readonly sentAtMs: number
  readonly validForMs: number
  readonly failures: number
  readonly adoptions: number
  /** Counts sleep, like `sentAtMs`. */
  readonly renewAtMs: number
}

/**
 * One of this elector's attempts and the ids of its writes. A record of this attempt with any other write id was
 * written by another process.
 */
export interface OwnAttempt {
  readonly id: string
  /** The most recent write ids seen in a record. */
  readonly seen: readonly string[]
  /** The most recent write ids sent since then. */
  readonly sent: readonly string[]
}

/** A contender's latest observation: a record, or the absence of one although a term was granted. */
export interface LeaseObservation {
  readonly record: LeaseRecord | undefined
  /** When this version was first observed. Observing it again never changes this time (I10). */
  readonly seenAtMs: number
  readonly holdsForMs: number
  /** When a try is worthwhile according to the store itself. Undefined if the store did not say. */
  readonly retryAtMs: number | undefined
}

/** When a version was first observed. */
export interface ObservedVersion {
  readonly key: string
  readonly atMs: number
}

/** An acquire that was sent and may be granted. */
export interface Attempt {
  /** Also the id of its write. */
  readonly id: string
  /** Counts sleep. Belief in a grant starts here. */
  readonly firstSentAtMs: number
  /** The highest term known when the acquire was first sent. A sound store grants only a higher term. */
  readonly afterTerm: number
  /** The highest term known to belong to any other attempt. A grant at or below it is not believed. */
  readonly floorTerm: number
}

/** The pending store call. `sentAtMs` counts sleep, `startedAtMs` does not. */
export interface PendingCall {
  readonly id: number
  readonly verb: Call['verb']
  readonly sentAtMs: number
  readonly startedAtMs: number
  readonly carry: string | undefined
}

/** A leadership that has ended, while its work winds down and its lease is released. */
export interface Ending {
  readonly term: number
  readonly reason: LossReason
  readonly next: 'campaign' | 'stop'
  /**
   * Whether leadership ended by `stepDown()` or `stop()`. These keep the lease alive while work winds down, then
   * release it.
   */
  readonly voluntary: boolean
  /** Whether all listeners of the end have been called. Until then more work may be registered. */
  readonly told: boolean
  readonly drainUntilMs: number
  /** The deadline for the release. Undefined until the first release call is sent. */
  readonly releaseUntilMs: number | undefined
  /** How long this elector stays out of the election after the release. */
  readonly cooldownMs: number
}

/** The complete state of the algorithm. */
export interface ElectionState {
  readonly settings: Settings
  readonly phase: 'idle' | 'standby' | 'leading' | 'ending' | 'stopped'
  readonly nowMs: number
  readonly sleptMs: number
  readonly highestTerm: number
  readonly announcedTerm: number
  /** This elector's most recent attempts, to distinguish its own abandoned attempts from those of others. */
  readonly own: readonly OwnAttempt[]
  readonly calls: number
  readonly work: number
  readonly flight: PendingCall | undefined
  readonly attempt: Attempt | undefined
  readonly view: LeaseObservation | undefined
  /** Recently observed versions, so that a replayed one is recognized. */
  readonly seen: readonly ObservedVersion[]
  /** The version in the store's last answer. It is kept separately so that many replayed events cannot evict it. */
  readonly confirmed: ObservedVersion | undefined
  readonly repliedAtMs: number
  /** When the first write was sent that failed since the store last accepted writes. Undefined if none failed. */
  readonly writeFailedAtMs: number | undefined
  /** How long the last answer took. Half of that for an acquire, because some stores must read first. */
  readonly answeredInMs: number
  /** The lease duration in the newest record seen. 0 before the first record. */
  readonly lastDurationMs: number
  readonly tryAtMs: number
  /** When this elector started to contend. */
  readonly contendsSinceMs: number
  readonly refusals: number
  readonly cooldownUntilMs: number
  readonly stopUntilMs: number | undefined
  readonly gaveUp: StopCause | undefined
  readonly watch: 'closed' | 'open' | 'broken'
  readonly rewatchAtMs: number
  readonly grant: Grant | undefined
  readonly carry: string | undefined
  readonly ending: Ending | undefined
}

/** The mutable state inside one step. */
export type MutableState = { -readonly [K in keyof ElectionState]: ElectionState[K] }

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

/**
 * Whether this state means leadership at a given time. It is computed on every call and is never a flag that a timer
 * must clear (I1).
 */
export function leadsAt(state: ElectionState, heldMs: number): boolean {
  return state.phase === 'leading' && heldMs < deadlineOf(state)
}

/** When `isLeader()` turns false without a renewal, on the clock that counts sleep. */
export function deadlineOf({ grant, settings }: ElectionState): number {
  if (!grant) return -Infinity
  return grant.sentAtMs + settings.renewDeadlineMs * shareOf(settings, grant.validForMs)
}

/**
 * The granted fraction of the requested lease duration. If a store grants less than requested, all of the leader's
 * deadlines scale with it.
 */
export function shareOf(settings: Settings, validForMs: number): number {
  return Math.min(1, validForMs / settings.leaseDurationMs)
}

/** The earliest time at which another process may lead, on the clock that counts sleep. */
export function beliefEndOf({ grant, settings }: ElectionState): number {
  return grant ? grant.sentAtMs + holderShareMs(grant.validForMs, settings.driftRatio) : -Infinity
}

/**
 * Whether a renewal can still write a checkpoint: while leading, and while renewals continue for work that is winding
 * down. That work has not settled, so its lease has not been released.
 */
export function canWriteCheckpoint(s: ElectionState, heldMs: number): boolean {
  const { ending } = s
  const windsDown = s.phase === 'ending' && ending?.voluntary && ending.releaseUntilMs === undefined && s.work > 0
  return (s.phase === 'leading' || windsDown === true) && heldMs < deadlineOf(s)
}

/** Whether a standby is notified of changes and does not have to poll. */
export function isWatching({ watch }: ElectionState): boolean {
  return watch === 'open'
}

/** The resolution of times that are converted between the two clocks. */
const finestMs = 0.001

/**
 * Converts a time on the clock that counts sleep to the monotonic clock. Rounding must not make it early. Otherwise a
 * timer would fire before its deadline and be set to the same time again, forever if time does not advance between two
 * timers.
 */
function awakeAt({ sleptMs }: ElectionState, heldMs: number): number {
  const atMs = heldMs - sleptMs
  return atMs + sleptMs < heldMs ? atMs + finestMs : atMs
}

/**
 * When the driver must send a `wake`, on the monotonic clock. Undefined if only a call or an event can change the
 * state.
 */
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
  // After the deadline no renewal can write the checkpoint, so waiting any longer is useless.
  if (s.ending && s.carry !== undefined && s.grant) at.push(awakeAt(s, deadlineOf(s)))
  if (releasing && !s.flight) at.push(s.tryAtMs)
  const next = Math.min(...at, Infinity)
  return next === Infinity ? undefined : next
}
