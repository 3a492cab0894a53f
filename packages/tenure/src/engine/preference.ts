/**
 * Who should lead: eligibility, priority, generation, handover by name, and progress. Pure functions on plain data.
 *
 * None of these rules can break safety. They only delay a candidate's acquire, or make a leader step down as
 * `stepDown()` does. They grant nothing, extend nothing, and release nothing that the algorithm would not release.
 *
 * What they could break is liveness (I10), so every wait here has an end that does not depend on another process. With
 * r for a retry interval, or for two of them where the store cannot watch:
 *
 *  - A candidate that is eligible waits at most 2r for its priority, r for a newer generation, and r before that if a
 *    release names another candidate. They count from the moment at which it first saw the release. After an expiry the
 *    release's name does not count. - So while an eligible candidate is healthy and the store answers, an election
 *    without a leader has one within one lease for an expiry, or within one notification or poll for a release, plus 4r
 *    and the usual jitter. Without a generation it is 3r. - A newer generation counts only until the lease of its seat
 *    expires. What is learned about it later moves no wait beyond these bounds, because they all count from the release
 *    or the expiry. - A candidate does not wait because of a record that was never written. Waits overlap: a cooldown
 *    and a delay do not add up. - A leader that is eligible and makes progress never steps down because of these rules.
 *    - Eligibility is asked at least once per retry interval, so a candidate that is eligible again contends again.
 *
 * If no candidate is eligible, nobody leads. That is what the fleet asked for, and `explain()` says so.
 */
import type { LeaseRecord } from './lease-store.ts'
import { expiresAtMs, type ObservedLease } from './observed-expiry.ts'

/** How soon a candidate takes over, compared with the others. See {@link priorities}. */
export type Priority = 'normal' | 'low' | 'lowest'

/** All priorities, highest first. Each step down waits one retry interval longer after a release or an expiry. */
export const priorities = ['normal', 'low', 'lowest'] as const satisfies readonly Priority[]

/**
 * A process that stepped down as ineligible or stalled has the lowest priority until it has been eligible for this many
 * leases.
 */
const probationLeases = 10

/** What a process says about itself when it is asked. */
export interface PreferenceAnswer {
  readonly eligible: boolean
  readonly priority: Priority
  /** When its work last reported progress, on the monotonic clock. `-Infinity` if it has not since it was elected. */
  readonly progressedAtMs: number
  /** Why an answer could not be used. Undefined if it could, and after it was reported once. */
  readonly problem?: unknown
}

/** The settings of these rules. */
export interface PreferenceSettings {
  /** Whether the process is asked at all: it has an `eligible` or a `priority` function, or reports progress. */
  readonly asks: boolean
  /** The priority until the process is first asked, or forever if it is never asked. */
  readonly priority: Priority
  /** How long a leader may be ineligible before it steps down. */
  readonly ineligibleForMs: number
  /** How long a leader may go without reporting progress. `Infinity` without `progressTimeoutMs`. */
  readonly progressTimeoutMs: number
}

/** The other settings that these rules read. */
interface CandidateSettings extends PreferenceSettings {
  readonly identity: string
  readonly leaseDurationMs: number
  readonly retryIntervalMs: number
  readonly canWatch: boolean
}

/** A contender's latest observation: a record, or the absence of one although a term was granted. */
export interface LeaseObservation extends ObservedLease {
  /** When a try is worthwhile according to the store itself. Undefined if the store did not say. */
  readonly retryAtMs: number | undefined
  /** When the store may grant this released lease again. Undefined if the store did not say so. */
  readonly blockedUntilMs: number | undefined
  /** Whether the record was released to a successor before this elector knew anything about the election. */
  readonly isOldRelease: boolean
}

/** The settings of a process that has no preference. */
export const noPreference: PreferenceSettings = {
  asks: false,
  priority: 'normal',
  ineligibleForMs: Infinity,
  progressTimeoutMs: Infinity,
}

/** What is remembered of the answers. All times are monotonic. */
export interface PreferenceState {
  readonly eligible: boolean
  readonly priority: Priority
  /** When the process was last asked. */
  readonly askedAtMs: number
  /** When the process first answered that it is not eligible. Undefined while it is. */
  readonly ineligibleSinceMs: number | undefined
  /** When it stops having the lowest priority. `Infinity` until it is eligible again. */
  readonly probationUntilMs: number
  /** When this leader was elected, or last reported progress. */
  readonly progressedAtMs: number
  /** The present member of a higher generation. Undefined if none was seen. */
  readonly newer: NewerGeneration | undefined
}

/** A member of a higher generation than this process's own, and when its seat expires without a renewal. */
export interface NewerGeneration {
  readonly generation: number
  readonly untilMs: number
}

/** Before the first answer, a process counts as eligible. It is asked before its first acquire. */
export function initialPreference({ priority }: PreferenceSettings): PreferenceState {
  return {
    eligible: true,
    priority,
    askedAtMs: -Infinity,
    ineligibleSinceMs: undefined,
    probationUntilMs: -Infinity,
    progressedAtMs: -Infinity,
    newer: undefined,
  }
}

/** The part of an election's state that these rules read. */
interface PreferredState {
  readonly settings: CandidateSettings
  readonly phase: 'idle' | 'standby' | 'leading' | 'ending' | 'stopped'
  readonly nowMs: number
  readonly cooldownUntilMs: number
  readonly view: LeaseObservation | undefined
  readonly preference: PreferenceState
}

/** Why a candidate does not contend at this moment. */
export type HeldBackBy = 'cooldown' | 'ineligible' | 'successor' | 'priority' | 'generation'

/**
 * When the process must be asked next. I10: at least once per retry interval, and right when a leader would step down,
 * so that it steps down only on a fresh answer.
 */
export function askAtMs(s: PreferredState): number {
  const { settings, preference } = s
  if (!settings.asks || s.phase === 'idle' || s.phase === 'stopped') return Infinity
  const regularMs = preference.askedAtMs + settings.retryIntervalMs
  return s.phase === 'leading' ? Math.min(regularMs, stepDownAtMs(s)) : regularMs
}

/** When this leader steps down unless its next answer prevents it. */
function stepDownAtMs(s: PreferredState): number {
  return Math.min(ineligibleDueMs(s), progressDueMs(s))
}

function ineligibleDueMs({ settings, preference }: PreferredState): number {
  const { ineligibleSinceMs } = preference
  return ineligibleSinceMs === undefined ? Infinity : ineligibleSinceMs + settings.ineligibleForMs
}

function progressDueMs({ settings, preference }: PreferredState): number {
  const { progressTimeoutMs } = settings
  return progressTimeoutMs === Infinity ? Infinity : preference.progressedAtMs + progressTimeoutMs
}

/** Remembers an answer. */
export function answered(s: PreferredState, answer: PreferenceAnswer): PreferenceState {
  const { settings, preference, nowMs } = s
  const { eligible, priority, progressedAtMs } = answer
  const { ineligibleSinceMs = nowMs, probationUntilMs } = preference
  return {
    eligible,
    priority,
    askedAtMs: nowMs,
    ineligibleSinceMs: eligible ? undefined : ineligibleSinceMs,
    probationUntilMs: probationAfter(probationUntilMs, eligible, nowMs, settings),
    progressedAtMs: Math.max(preference.progressedAtMs, progressedAtMs),
    newer: preference.newer,
  }
}

/** The probation counts only time in which the process is eligible without interruption. */
function probationAfter(
  untilMs: number,
  eligible: boolean,
  nowMs: number,
  { leaseDurationMs }: CandidateSettings,
): number {
  if (nowMs >= untilMs) return -Infinity
  if (!eligible) return Infinity
  return untilMs === Infinity ? nowMs + probationLeases * leaseDurationMs : untilMs
}

/** Why this leader must step down now. Undefined if it is eligible and makes progress. */
export function reasonToStepDown(s: PreferredState): 'ineligible' | 'stalled' | undefined {
  if (s.nowMs >= ineligibleDueMs(s)) return 'ineligible'
  return s.nowMs >= progressDueMs(s) ? 'stalled' : undefined
}

/** A new leader has its whole time until it must report progress. */
export function onElected({ settings, preference, nowMs }: PreferredState): PreferenceState {
  return settings.progressTimeoutMs === Infinity ? preference : { ...preference, progressedAtMs: nowMs }
}

/** Begins the probation of a leader that steps down as ineligible or stalled. */
export function onProbation({ settings, preference, nowMs }: PreferredState): PreferenceState {
  return { ...preference, probationUntilMs: probationAfter(Infinity, preference.eligible, nowMs, settings) }
}

/** The priority that counts now. */
export function priorityOf({ preference, nowMs }: Pick<PreferredState, 'preference' | 'nowMs'>): Priority {
  return nowMs < preference.probationUntilMs ? 'lowest' : preference.priority
}

/**
 * The present member of a higher generation that counts now. It stops counting when its seat expires, even if the seats
 * cannot be read anymore.
 */
export function newerGenerationOf({
  preference: { newer },
  nowMs,
}: Pick<PreferredState, 'preference' | 'nowMs'>): NewerGeneration | undefined {
  return newer && nowMs < newer.untilMs ? newer : undefined
}

/** How many steps this candidate is below one that waits for nobody. A newer generation counts as one step. */
export function stepsDown(s: Pick<PreferredState, 'preference' | 'nowMs'>): number {
  return priorities.indexOf(priorityOf(s)) + (newerGenerationOf(s) ? 1 : 0)
}

/**
 * How long the process waits for each step of its priority, and for a named successor. Without a watch, the others
 * notice a release only at their next poll.
 */
function stepMs({ retryIntervalMs, canWatch }: CandidateSettings): number {
  return canWatch ? retryIntervalMs : 2 * retryIntervalMs
}

/** The candidate that a released record names. Undefined if it names nobody. */
export function successorOf(record: LeaseRecord | undefined): string | undefined {
  // Many clients use null for a missing value.
  return record?.released && typeof record.successor === 'string' ? record.successor : undefined
}

/**
 * When a released lease became free: when it was first seen as released, or later if the store grants nothing before, as
 * the service does after an administrator ended a lease by force.
 */
function freeAtMs({ seenAtMs, blockedUntilMs = -Infinity }: LeaseObservation): number {
  return Math.max(seenAtMs, blockedUntilMs)
}

/** Whether the lease was released to this candidate. */
export function isNamed({ view, settings }: Pick<PreferredState, 'view' | 'settings'>): boolean {
  return successorOf(view?.record) === settings.identity
}

/** When this candidate stops leaving the lease to another one that the release names. `-Infinity` if to none. */
function successorUntilMs({ view, settings }: Pick<PreferredState, 'view' | 'settings'>): number {
  const successor = successorOf(view?.record)
  const isToOther = successor !== undefined && successor !== settings.identity
  return view && isToOther && !view.isOldRelease ? freeAtMs(view) + stepMs(settings) : -Infinity
}

/**
 * When this candidate stops leaving the lease to candidates of a higher priority or a newer generation: some time after
 * the release or the expiry, and after the wait for a named successor. `-Infinity` if the record was never written.
 */
function priorityUntilMs(s: Omit<PreferredState, 'phase' | 'cooldownUntilMs'>): number {
  const { view, settings } = s
  const delayMs = stepsDown(s) * stepMs(settings)
  if (!view || delayMs === 0 || isNamed(s)) return -Infinity
  const expiredAtMs = Math.min(view.retryAtMs ?? Infinity, expiresAtMs(view))
  return Math.max(view.record?.released ? freeAtMs(view) : expiredAtMs, successorUntilMs(s)) + delayMs
}

/**
 * When this candidate may contend again, and why it waits. The waits do not add up, because they all run at once. A
 * candidate that is not eligible waits until it is asked again.
 */
export function heldBack(s: PreferredState): { readonly by: HeldBackBy; readonly untilMs: number } | undefined {
  const { preference, settings, nowMs } = s
  if (!preference.eligible) return { by: 'ineligible', untilMs: preference.askedAtMs + settings.retryIntervalMs }
  if (nowMs < s.cooldownUntilMs) return { by: 'cooldown', untilMs: Math.max(s.cooldownUntilMs, priorityUntilMs(s)) }
  const successorMs = successorUntilMs(s)
  if (nowMs < successorMs) return { by: 'successor', untilMs: Math.max(successorMs, priorityUntilMs(s)) }
  const priorityMs = priorityUntilMs(s)
  if (nowMs >= priorityMs) return undefined
  return { by: priorityOf(s) === 'normal' ? 'generation' : 'priority', untilMs: priorityMs }
}

/** How long a leader that hands over stays out at least, so that it does not compete with its successor. */
export function handOverMs(settings: CandidateSettings): number {
  return stepMs(settings)
}
