import { invalidOption } from '../common/errors.ts'
import { checkOptions, type OptionNames } from '../common/check-options.ts'

/**
 * The durations of an election. `leaseDurationMs` alone is enough, and the others are derived from it. A default that
 * would be unsafe with the given values is replaced by a safe one.
 */
export interface TimingOptions {
  /** How long a grant lasts without renewal. Default: 15 s. */
  readonly leaseDurationMs?: number | undefined
  /** How often a leader renews. Default: one third of the lease. */
  readonly renewIntervalMs?: number | undefined
  /**
   * A leader that has not been able to renew for this long stops. Default: two thirds of the lease, or later if the
   * intervals require it.
   */
  readonly renewDeadlineMs?: number | undefined
  /**
   * How long to wait after a failed call, and between polls of a store that cannot be watched. Default: 2/15 of the
   * lease.
   */
  readonly retryIntervalMs?: number | undefined
  /** How far the rate of each clock may be off. It must be the same in the whole fleet. Default: 0.01, one percent. */
  readonly driftRatio?: number | undefined
  /**
   * End leadership after this many failed renewals in a row, even before the deadline. Default: only the deadline
   * counts.
   */
  readonly maxFailedRenewals?: number | undefined
}

/** Timings that have been checked to be safe. */
export interface Timings {
  readonly leaseDurationMs: number
  readonly renewIntervalMs: number
  readonly renewDeadlineMs: number
  readonly retryIntervalMs: number
  readonly driftRatio: number
  readonly maxFailedRenewals: number
  /** How long a leader may rely on a renewal, counted from when it was sent. No other process leads before that. */
  readonly beliefEndMs: number
  /** How long a leader waits for the answer to a renewal before it sends another one. */
  readonly answerBoundMs: number
}

/** The names of {@link TimingOptions}. */
export const timingNames: OptionNames<TimingOptions> = {
  leaseDurationMs: true,
  renewIntervalMs: true,
  renewDeadlineMs: true,
  retryIntervalMs: true,
  driftRatio: true,
  maxFailedRenewals: true,
}

const usualLeaseMs = 15_000
const shortestLeaseMs = 100
const shortestMs = 1
const endMs = 2 ** 31
const usualDriftRatio = 0.01

/**
 * Fills in defaults and rejects unsafe combinations, as an elector does.
 *
 * @example
 * const { renewIntervalMs, renewDeadlineMs } = resolveTimings({ leaseDurationMs: 15_000 })
 */
export function resolveTimings(options: TimingOptions): Timings {
  checkOptions('resolveTimings()', options, timingNames)
  return timingsOf(options)
}

/** Resolves timings without checking the names of the options, which may include those of other features. */
export function timingsOf(options: TimingOptions): Timings {
  const { leaseDurationMs = usualLeaseMs, driftRatio = usualDriftRatio, maxFailedRenewals = Infinity } = options
  checkDuration('leaseDurationMs', leaseDurationMs, shortestLeaseMs)
  for (const name of ['renewIntervalMs', 'renewDeadlineMs', 'retryIntervalMs'] as const) {
    if (options[name] !== undefined) checkDuration(name, options[name], shortestMs)
  }
  checkDrift(driftRatio)
  if (options.maxFailedRenewals !== undefined) checkCount(maxFailedRenewals)
  const latestMs = latestDeadlineMs(leaseDurationMs, driftRatio)
  const derived = derive(options, leaseDurationMs, latestMs)
  checkRelations(options, { ...derived, leaseDurationMs, driftRatio, latestMs })
  return {
    leaseDurationMs,
    ...derived,
    driftRatio,
    maxFailedRenewals,
    beliefEndMs: holderBeliefMs(leaseDurationMs, driftRatio),
    answerBoundMs: (derived.renewDeadlineMs - derived.renewIntervalMs) / 2,
  }
}

interface Derived {
  readonly renewIntervalMs: number
  readonly renewDeadlineMs: number
  readonly retryIntervalMs: number
}

/**
 * Derives the timings that were not given. The usual fractions of the lease are used if they are safe together with the
 * given numbers. Otherwise the derived numbers are adapted: first the deadline becomes later, then the intervals become
 * shorter. If any choice is safe, this one is.
 */
function derive(given: TimingOptions, leaseMs: number, latestMs: number): Derived {
  const answersMs = minRenewalWindowMs(leaseMs)
  const usualIntervalMs = given.renewIntervalMs ?? leaseMs / 3
  const usualRetryMs = given.retryIntervalMs ?? (leaseMs * 2) / 15
  const neededMs = usualIntervalMs + Math.max(usualRetryMs, answersMs)
  const usualDeadlineMs = given.renewDeadlineMs ?? (leaseMs * 2) / 3
  const isUsual = neededMs <= usualDeadlineMs && (given.renewDeadlineMs !== undefined || usualDeadlineMs <= latestMs)
  if (isUsual) {
    return { renewIntervalMs: usualIntervalMs, renewDeadlineMs: usualDeadlineMs, retryIntervalMs: usualRetryMs }
  }
  // This deadline is two and a half retry intervals after a renewal is due, as with the default timings.
  const laterMs = Math.max(neededMs, usualIntervalMs + 2.5 * usualRetryMs)
  const renewDeadlineMs = given.renewDeadlineMs ?? Math.min(latestMs, Math.max(usualDeadlineMs, laterMs))
  // The intervals are one half and one fifth of the deadline, as with the default timings.
  const retryIntervalMs =
    given.retryIntervalMs ??
    within(Math.min(usualRetryMs, renewDeadlineMs / 5), renewDeadlineMs - (given.renewIntervalMs ?? shortestMs))
  const roomMs = renewDeadlineMs - Math.max(retryIntervalMs, answersMs)
  const renewIntervalMs = given.renewIntervalMs ?? within(Math.min(usualIntervalMs, renewDeadlineMs / 2), roomMs)
  return { renewIntervalMs, renewDeadlineMs, retryIntervalMs }
}

/**
 * Limits a duration to the available room and to the shortest allowed duration. The room is rounded down to whole
 * milliseconds, so that rounding cannot make a sum too long.
 */
function within(wantedMs: number, roomMs: number): number {
  return Math.max(shortestMs, Math.min(wantedMs, Math.floor(roomMs)))
}

/** The minimum time that two renewals need to be answered before the deadline. */
export function minRenewalWindowMs(leaseMs: number): number {
  return leaseMs / 50
}

/** Checks that a timer can wait for this duration. */
export function checkDuration(option: string, value: unknown, leastMs = 0): asserts value is number {
  if (typeof value === 'number' && value >= leastMs && value < endMs) return
  const rule = `it must be a number of milliseconds from ${leastMs} to below 2^31 (${endMs})`
  throw invalidOption(option, value, rule, leastMs)
}

function checkDrift(driftRatio: unknown): void {
  if (!(typeof driftRatio === 'number' && driftRatio > 0 && driftRatio < 1)) {
    throw invalidOption('driftRatio', driftRatio, 'it must be a number above 0 and below 1')
  }
}

function checkCount(maxFailedRenewals: number): void {
  if (!(Number.isSafeInteger(maxFailedRenewals) && maxFailedRenewals >= 2)) {
    throw invalidOption(
      'maxFailedRenewals',
      maxFailedRenewals,
      'it must be an integer of at least 2, because one failed renewal must not end leadership',
    )
  }
}

interface Relations extends Derived {
  readonly leaseDurationMs: number
  readonly driftRatio: number
  readonly latestMs: number
}

/**
 * Rejects unsafe timings. The error names a number that the user gave, because an error about a derived number would be
 * confusing.
 */
function checkRelations(given: TimingOptions, timings: Relations): void {
  const { leaseDurationMs, renewIntervalMs, renewDeadlineMs, retryIntervalMs, driftRatio, latestMs } = timings
  const answersMs = minRenewalWindowMs(leaseDurationMs)
  const lease = `with leaseDurationMs ${leaseDurationMs} and driftRatio ${driftRatio}`
  const isTooLong = renewIntervalMs + Math.max(retryIntervalMs, answersMs) > latestMs
  if (given.renewDeadlineMs === undefined && isTooLong) throw tooLong(given, leaseDurationMs, latestMs)
  const refuse = (rule: string) => invalidOption('renewDeadlineMs', rounded(renewDeadlineMs), rule)
  if (renewDeadlineMs > latestMs) {
    const rule = `it must be at most ${Math.floor(latestMs)} ${lease}, which leaves one twentieth of the lease for work to wind down. Otherwise two processes could lead at once`
    throw refuse(rule)
  }
  if (renewDeadlineMs < renewIntervalMs + retryIntervalMs) {
    const rule = `it must be at least renewIntervalMs + retryIntervalMs (${rounded(renewIntervalMs)} + ${rounded(retryIntervalMs)}), so that a failed renewal can be retried`
    throw refuse(rule)
  }
  if (renewDeadlineMs < renewIntervalMs + answersMs) {
    const rule = `it must be at least renewIntervalMs + leaseDurationMs / 50 (${rounded(renewIntervalMs)} + ${rounded(answersMs)}), so that two renewals can be answered in time`
    throw refuse(rule)
  }
}

/** The error for intervals so long that every deadline is either too early for them or too late for this lease. */
function tooLong(given: TimingOptions, leaseDurationMs: number, latestMs: number): TypeError {
  const { renewIntervalMs, retryIntervalMs, driftRatio = usualDriftRatio } = given
  const lease = `with leaseDurationMs ${leaseDurationMs} and driftRatio ${driftRatio}`
  const why = 'so that a failed renewal can be retried and work can wind down in time'
  if (renewIntervalMs !== undefined && retryIntervalMs !== undefined) {
    const sum = `renewIntervalMs + retryIntervalMs (${rounded(renewIntervalMs)} + ${rounded(retryIntervalMs)})`
    return invalidOption(
      'renewIntervalMs',
      rounded(renewIntervalMs),
      `${sum} must be at most ${Math.floor(latestMs)} ${lease}, ${why}`,
    )
  }
  const answersMs = Math.max(shortestMs, minRenewalWindowMs(leaseDurationMs))
  if (renewIntervalMs !== undefined) {
    const rule = `it must be at most ${Math.floor(latestMs - answersMs)} ${lease}, ${why}`
    return invalidOption('renewIntervalMs', rounded(renewIntervalMs), rule)
  }
  if (retryIntervalMs !== undefined) {
    const rule = `it must be at most ${Math.floor(latestMs - shortestMs)} ${lease}, ${why}`
    return invalidOption('retryIntervalMs', rounded(retryIntervalMs), rule)
  }
  return invalidOption('driftRatio', driftRatio, `${lease} no deadline leaves time to renew and to wind down`)
}

/**
 * The latest safe deadline. A leader that stops by then leaves one twentieth of the lease for work to wind down before
 * others may lead.
 */
export function latestDeadlineMs(leaseDurationMs: number, driftRatio = usualDriftRatio): number {
  return holderBeliefMs(leaseDurationMs, driftRatio) - leaseDurationMs / 20
}

/** Rounds for messages, because a third of a lease has many digits. */
function rounded(ms: number): number {
  return Number(ms.toFixed(1))
}

/**
 * The part of a lease that its holder may rely on. The holder's clock may be slow and the other side's fast, each by
 * `driftRatio`. The holder alone allows for both, so that others can wait exactly the lease's duration.
 */
export function holderBeliefMs(leaseDurationMs: number, driftRatio: number): number {
  return (leaseDurationMs * (1 - driftRatio)) / (1 + driftRatio)
}
