/**
 * The inputs, the state, and the effects of the algorithm in `election.ts`. The state is plain data: see
 * `election-fields.ts`.
 */
import type { LossReason } from '../common/errors.ts'
import type { AcquireClaim, HeldClaim, LeaseRecord, Metadata, Outcome } from './lease-store.ts'
import { nothingObserved, type ObservedVersions } from './observed-expiry.ts'
import {
  askAtMs,
  initialPreference,
  type LeaseObservation,
  type NewerGeneration,
  type PreferenceAnswer,
  type PreferenceSettings,
  type PreferenceState,
} from './preference.ts'
import { holderBeliefMs, type Timings } from './timings.ts'

/** An elector's configuration, constant for its lifetime. */
export interface ElectionSettings extends Timings, PreferenceSettings {
  readonly election: string
  readonly identity: string
  readonly metadata: Metadata
  readonly drainTimeoutMs: number
  readonly releaseOnStop: boolean
  readonly canWatch: boolean
  /** Whether a campaign begins with a read: see `LeaseStore.readsFirst`. */
  readonly readsFirst: boolean
  readonly terms: boolean
  readonly until: 'stopped' | 'unanswered' | 'lost' | 'busy' | 'refused'
  /** With `until: 'busy'`, how long a campaign waits before it gives up because another process leads. */
  readonly waitMs: number
}

/** Why an elector stopped on its own: another process's record, or a call that failed. */
export type StopCause = { readonly record: LeaseRecord | undefined } | { readonly error: unknown }

/**
 * The time and the randomness of an input. `fresh` returns a unique name. It uses nothing that clones of this process
 * share, so that not even a clone gets the same name. `chance` returns a number of at least 0 and below 1, for jitter.
 * `ask` asks the process whether it should lead. `wallMs` returns Unix time, which may be wrong or jump: it is a hint
 * for the answer that another process leads, and nothing else may use it.
 */
export interface InputContext {
  readonly nowMs: number
  readonly sleptMs: number
  fresh(): string
  chance(): number
  ask(): PreferenceAnswer
  wallMs(): number
}

/** The inputs that the algorithm reacts to. */
export type Input = InputContext &
  (
    | { readonly type: 'stop' | 'wake' | 'watch-ended' }
    /** `known` is what was observed on the same clock before the start. */
    | { readonly type: 'start'; readonly known?: KnownLease | undefined }
    /** All listeners of the end of a leadership have been called. */
    | { readonly type: 'end-told' }
    | { readonly type: 'step-down'; readonly cooldownMs: number; readonly successor?: string | undefined }
    | { readonly type: 'answer'; readonly call: number; readonly outcome: Outcome }
    | { readonly type: 'found'; readonly call: number; readonly record: LeaseRecord | undefined }
    | { readonly type: 'failed'; readonly call: number; readonly error: unknown }
    | { readonly type: 'observed'; readonly record: LeaseRecord | undefined }
    | { readonly type: 'work'; readonly pending: number }
    | { readonly type: 'checkpoint'; readonly text: string }
    /** The seats of the other members were read. */
    | { readonly type: 'members'; readonly newer: NewerGeneration | undefined }
  )

/** A store call to make. After `boundMs` the call counts as failed, and a later answer is dropped. */
export type Call = { readonly id: number; readonly boundMs: number } & (
  | { readonly verb: 'acquire'; readonly claim: AcquireClaim }
  | { readonly verb: 'renew' | 'release'; readonly claim: HeldClaim }
  | { readonly verb: 'read' }
)

/** The effects that the driver must perform, in this order. */
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
  | { readonly type: 'eligibility'; readonly eligible: boolean }
  | { readonly type: 'checkpoint-written'; readonly text: string }
  | { readonly type: 'error'; readonly error: unknown }
  | { readonly type: 'release-failed'; readonly error: unknown }
  | { readonly type: 'stepped-down' | 'stopped' }

/** A grant that this elector leads by or is winding down. `sentAtMs` includes sleep. */
export interface Grant {
  readonly record: LeaseRecord
  readonly sentAtMs: number
  readonly validForMs: number
  readonly failures: number
  readonly adoptions: number
  /** When the next renewal is due, on the clock that counts sleep. */
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

/** What is known about a lease before a campaign for it. */
export interface KnownLease extends ObservedVersions {
  readonly view: LeaseObservation | undefined
}

/** An acquire that was sent and may be granted. */
export interface Attempt {
  /** The attempt's id. It is also the id of its write. */
  readonly id: string
  /** When the acquire was first sent, on the clock that counts sleep. Belief in a grant starts here. */
  readonly firstSentAtMs: number
  /** The highest term known when the acquire was first sent. A sound store grants only a higher term. */
  readonly afterTerm: number
  /** The highest term known to belong to any other attempt. A grant at or below it is not believed. */
  readonly floorTerm: number
}

/** The pending store call. `sentAtMs` includes sleep, `startedAtMs` does not. */
export interface PendingCall {
  readonly id: number
  readonly verb: Call['verb']
  readonly sentAtMs: number
  readonly startedAtMs: number
  readonly checkpoint: string | undefined
}

/** A leadership that has ended, while its work winds down and its lease is released. */
export interface Ending {
  readonly term: number
  readonly reason: LossReason
  readonly next: 'campaign' | 'stop'
  /**
   * Whether this elector ended its leadership itself, as by `stepDown()` or `stop()`. It then keeps the lease alive
   * while work winds down, and releases it.
   */
  readonly voluntary: boolean
  /** Whether all listeners of the end have been called. Until then more work may be registered. */
  readonly told: boolean
  readonly drainUntilMs: number
  /** The deadline for the release. Undefined until the first release call is sent. */
  readonly releaseUntilMs: number | undefined
  /** How long this elector stays out of the election after the release. */
  readonly cooldownMs: number
  /** Whom the release names. Undefined if nobody. */
  readonly successor: string | undefined
}

/** The complete state of the algorithm. */
export interface ElectionState extends ObservedVersions {
  readonly settings: ElectionSettings
  readonly phase: 'idle' | 'standby' | 'leading' | 'ending' | 'stopped'
  readonly nowMs: number
  readonly sleptMs: number
  readonly announcedTerm: number
  /** This elector's most recent attempts, to distinguish its own abandoned attempts from those of other electors. */
  readonly own: readonly OwnAttempt[]
  readonly calls: number
  readonly work: number
  readonly flight: PendingCall | undefined
  readonly attempt: Attempt | undefined
  readonly view: LeaseObservation | undefined
  readonly lastReplyAtMs: number
  /** When the first write was sent that failed since the store last accepted writes. Undefined if none failed. */
  readonly writeFailedAtMs: number | undefined
  /** How long the last answer took. For an acquire, half of that, because some stores must read first. */
  readonly answeredInMs: number
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
  readonly checkpoint: string | undefined
  readonly ending: Ending | undefined
  readonly preference: PreferenceState
}

/** The mutable state inside one step. */
export type MutableState = { -readonly [K in keyof ElectionState]: ElectionState[K] }

/** The state before `start`. */
export function initialState(settings: ElectionSettings): ElectionState {
  return {
    settings,
    phase: 'idle',
    nowMs: 0,
    sleptMs: 0,
    ...nothingObserved,
    view: undefined,
    // Other programs that share a record may begin at term 0.
    announcedTerm: -1,
    own: [],
    calls: 0,
    work: 0,
    flight: undefined,
    attempt: undefined,
    lastReplyAtMs: -Infinity,
    writeFailedAtMs: undefined,
    answeredInMs: 0,
    tryAtMs: 0,
    contendsSinceMs: 0,
    refusals: 0,
    cooldownUntilMs: -Infinity,
    stopUntilMs: undefined,
    gaveUp: undefined,
    watch: 'closed',
    rewatchAtMs: 0,
    grant: undefined,
    checkpoint: undefined,
    ending: undefined,
    preference: initialPreference(settings),
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
  return grant.sentAtMs + settings.renewDeadlineMs * grantedFraction(settings, grant.validForMs)
}

/**
 * The granted fraction of the requested lease duration. If a store grants less than requested, all of the leader's
 * deadlines scale with it.
 */
export function grantedFraction(settings: ElectionSettings, validForMs: number): number {
  return Math.min(1, validForMs / settings.leaseDurationMs)
}

/** The earliest time at which another process may lead, on the clock that counts sleep. */
export function beliefEndOf({ grant, settings }: ElectionState): number {
  return grant ? grant.sentAtMs + holderBeliefMs(grant.validForMs, settings.driftRatio) : -Infinity
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
 * timer would fire before its deadline and be set to the same time again. If time does not advance between two timers,
 * that would repeat forever.
 */
function toMonotonicMs({ sleptMs }: ElectionState, heldMs: number): number {
  const atMs = heldMs - sleptMs
  return atMs + sleptMs < heldMs ? atMs + finestMs : atMs
}

/**
 * When the driver must send a `wake`, on the monotonic clock. Undefined if only a call or an event can change the
 * state.
 */
export function nextWakeMs(s: ElectionState): number | undefined {
  const at: number[] = [askAtMs(s)]
  if (s.phase === 'standby') {
    const waits = s.stopUntilMs === undefined && isWatching(s)
    if (!s.flight) at.push(waits ? Math.max(s.tryAtMs, s.cooldownUntilMs) : s.tryAtMs)
    if (s.stopUntilMs !== undefined) at.push(s.stopUntilMs)
    if (s.watch === 'broken') at.push(s.rewatchAtMs)
  }
  if (s.phase === 'leading') at.push(toMonotonicMs(s, deadlineOf(s)))
  const releasing = s.ending?.releaseUntilMs !== undefined
  const renewing = s.phase === 'leading' || (s.ending?.voluntary && !releasing)
  if (s.grant && !s.flight && renewing) at.push(toMonotonicMs(s, s.grant.renewAtMs))
  if (s.ending && !releasing) at.push(s.ending.drainUntilMs)
  // After the deadline no renewal can write the checkpoint, so waiting any longer is useless.
  if (s.ending && s.checkpoint !== undefined && s.grant) at.push(toMonotonicMs(s, deadlineOf(s)))
  if (releasing && !s.flight) at.push(s.tryAtMs)
  const next = Math.min(...at, Infinity)
  return next === Infinity ? undefined : next
}
