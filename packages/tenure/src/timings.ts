import { invalidOption } from './errors.ts'
import { checkOptions, type OptionNames } from './options/check-options.ts'

/** How long things last. `leaseDurationMs` alone is enough; the rest follows from it. */
export interface TimingOptions {
  /** How long a grant lasts without renewal. Default: 15 s. */
  readonly leaseDurationMs?: number | undefined
  /** How often a leader renews. Default: a third of the lease. */
  readonly renewIntervalMs?: number | undefined
  /** A leader that could not renew for this long stops. Default: two thirds of the lease. */
  readonly renewDeadlineMs?: number | undefined
  /** How long to wait after a failed call, and between polls where a store cannot watch. Default: 2/15 of the lease. */
  readonly retryIntervalMs?: number | undefined
  /** How far each clock's rate may be off, the same in the whole fleet. Default: 0.01, one percent. */
  readonly driftRatio?: number | undefined
  /** End leadership after this many failed renewals in a row, even before the deadline. Default: only the deadline. */
  readonly maxFailedRenewals?: number | undefined
}

/** Timings that are known to be safe. */
export interface Timings {
  readonly leaseDurationMs: number
  readonly renewIntervalMs: number
  readonly renewDeadlineMs: number
  readonly retryIntervalMs: number
  readonly driftRatio: number
  readonly maxFailedRenewals: number
  /** How long a leader may rely on a renewal, counted from its sending. No other process leads before that. */
  readonly beliefEndMs: number
  /** How long a leader waits for the answer to a renewal before it sends another. */
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

const shortestLeaseMs = 100
const endMs = 2 ** 31
const usualDriftRatio = 0.01

/**
 * Fills in defaults and rejects what cannot be safe, as an elector does.
 *
 * @example
 * const { renewIntervalMs, renewDeadlineMs } = resolveTimings({ leaseDurationMs: 15_000 })
 */
export function resolveTimings(options: TimingOptions): Timings {
  checkOptions('resolveTimings()', options, timingNames)
  return timingsOf(options)
}

/** The same for options that were checked, and may hold more. */
export function timingsOf(options: TimingOptions): Timings {
  const { leaseDurationMs = 15_000 } = options
  checkDuration('leaseDurationMs', leaseDurationMs, shortestLeaseMs)
  const {
    renewIntervalMs = leaseDurationMs / 3,
    renewDeadlineMs = (leaseDurationMs * 2) / 3,
    retryIntervalMs = (leaseDurationMs * 2) / 15,
    driftRatio = usualDriftRatio,
    maxFailedRenewals = Infinity,
  } = options
  checkDuration('renewIntervalMs', renewIntervalMs, 1)
  checkDuration('renewDeadlineMs', renewDeadlineMs, 1)
  checkDuration('retryIntervalMs', retryIntervalMs, 1)
  checkDrift(driftRatio)
  if (options.maxFailedRenewals !== undefined) checkCount(maxFailedRenewals)
  const timings: Timings = {
    leaseDurationMs,
    renewIntervalMs,
    renewDeadlineMs,
    retryIntervalMs,
    driftRatio,
    maxFailedRenewals,
    beliefEndMs: holderShareMs(leaseDurationMs, driftRatio),
    answerBoundMs: (renewDeadlineMs - renewIntervalMs) / 2,
  }
  checkRelations(timings)
  return timings
}

/** A duration that a timer can wait for. */
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
      'one failed renewal must not end leadership: at least 2',
    )
  }
}

function checkRelations(timings: Timings): void {
  const { leaseDurationMs, renewIntervalMs, renewDeadlineMs, retryIntervalMs, driftRatio } = timings
  if (renewDeadlineMs < renewIntervalMs + retryIntervalMs) {
    throw invalidOption(
      'renewDeadlineMs',
      rounded(renewDeadlineMs),
      `it must be at least renewIntervalMs + retryIntervalMs (${rounded(renewIntervalMs)} + ${rounded(retryIntervalMs)}), so that a failed renewal can be tried again`,
    )
  }
  if (renewDeadlineMs - renewIntervalMs < leaseDurationMs / 50) {
    throw invalidOption(
      'renewDeadlineMs',
      rounded(renewDeadlineMs),
      `it must leave two renewals a fiftieth of the lease to be answered in: at least renewIntervalMs + leaseDurationMs / 50 (${rounded(renewIntervalMs)} + ${rounded(leaseDurationMs / 50)})`,
    )
  }
  const latestMs = latestDeadlineMs(leaseDurationMs, driftRatio)
  if (renewDeadlineMs > latestMs) {
    throw invalidOption(
      'renewDeadlineMs',
      rounded(renewDeadlineMs),
      `it must leave a twentieth of the lease for work to wind down: with leaseDurationMs ${leaseDurationMs} and driftRatio ${driftRatio} at most ${Math.floor(latestMs)}; otherwise two could lead at once`,
    )
  }
}

/** A leader that stops by then leaves a twentieth of the lease for work to wind down before others may lead. */
export function latestDeadlineMs(leaseDurationMs: number, driftRatio = usualDriftRatio): number {
  return holderShareMs(leaseDurationMs, driftRatio) - leaseDurationMs / 20
}

/** For people: a third of a lease has many digits. */
function rounded(ms: number): number {
  return Number(ms.toFixed(1))
}

/**
 * How much of a lease its holder may count on. The holder's clock may be slow and the other side's fast, each by
 * `driftRatio`; the holder alone makes room for both, so that others can wait exactly the lease's duration.
 */
export function holderShareMs(leaseDurationMs: number, driftRatio: number): number {
  return (leaseDurationMs * (1 - driftRatio)) / (1 + driftRatio)
}
