import { candidateNames, type ElectorOptions } from '../engine/elector.ts'
import { invalidOption } from '../common/errors.ts'
import { checkName } from '../common/names.ts'
import { checkOneOf, checkSignal } from '../engine/check-values.ts'
import { checkMembers, checkOptions, type OptionNames } from '../common/check-options.ts'
import type { PresenceOptions } from '../engine/members/check-presence.ts'
import { checkDuration } from '../engine/timings.ts'
import { cronTimes, timezoneOf } from './cron.ts'
import type { JobObserver } from './events.ts'
import type { RunLimits } from './run-work.ts'
import { Schedule, toleranceMsOf, type JobSchedule, type Missed } from './schedule.ts'
import { intervalMsOf, intervalTimes, type Interval } from './due-times.ts'

/**
 * Options of {@link createJobs}, in addition to those of an elector without an election. Only `store` is required.
 *
 * `eligible` and `priority` decide whether this process leads scheduled jobs. Runs that you start yourself, as with
 * `jobs.once`, ignore them.
 */
export interface JobsOptions extends Omit<
  ElectorOptions,
  'election' | 'observer' | 'progressTimeoutMs' | keyof PresenceOptions
> {
  /** Aborting it closes the jobs. */
  readonly signal?: AbortSignal | undefined
  /**
   * The election of one leader that runs all of these jobs. Without it, each job has its own leader, and the jobs are
   * spread over the fleet.
   */
  readonly sharedLeader?: string | undefined
  /** An observer that also receives job events. Without an observer, each failed or missed run is logged. */
  readonly observer?: JobObserver | undefined
}

/** Time limit and retries of a run. */
export interface RunOptions {
  /** How long a run may take, including all its tries. After that its signal aborts. Default: unlimited. */
  readonly maxRuntimeMs?: number | undefined
  /** How many times a failed run is retried by the same process in the same term. Default: 0. */
  readonly retries?: number | undefined
  /** The delay before the first retry. It doubles each time, up to a minute. Default: 1 s. */
  readonly retryDelayMs?: number | undefined
}

/** Options of a call that runs a job now. */
export interface RunNowOptions extends RunOptions {
  /**
   * Aborting it ends the call: the work drains, the lease is released, and the call rejects with the signal's reason.
   */
  readonly signal?: AbortSignal | undefined
}

/** Options of `jobs.every`. Only `name` is required. */
export interface JobOptions extends RunOptions {
  /** The name of the job's election and of its record. It must be the same in the whole fleet. */
  readonly name: string
  /** The time zone of a cron expression. Default: UTC. */
  readonly timezone?: string | undefined
  /** What to do about times at which no process could run the job: skip them (default), or run once for all of them. */
  readonly missed?: Missed | undefined
}

const { progressTimeoutMs: _progress, ...jobCandidateNames } = candidateNames

export const jobsNames: OptionNames<JobsOptions> = { ...jobCandidateNames, signal: true, sharedLeader: true }
const limitNames: OptionNames<RunOptions> = { maxRuntimeMs: true, retries: true, retryDelayMs: true }
const jobNames: OptionNames<JobOptions> = { name: true, timezone: true, missed: true, ...limitNames }
const callNames: OptionNames<RunNowOptions> = { ...limitNames, signal: true }

export function checkJobObserver(observer: unknown): asserts observer is JobObserver | undefined {
  if (observer === undefined) return
  if (typeof observer !== 'object' || observer === null) {
    throw invalidOption('observer', observer, 'it must be an object')
  }
  const onJob: unknown = Reflect.get(observer, 'onJob')
  if (onJob !== undefined && typeof onJob !== 'function') {
    throw invalidOption('observer.onJob', onJob, 'it must be a function')
  }
  checkMembers('observer', observer, ['onEvent', 'onCall', 'onJob'])
}

export function checkWork(work: unknown): void {
  if (typeof work !== 'function') throw invalidOption('work', work, 'it must be a function that takes { signal, … }')
}

function limitsOf({ maxRuntimeMs, retries = 0, retryDelayMs = 1_000 }: RunOptions): RunLimits {
  if (maxRuntimeMs !== undefined) checkDuration('maxRuntimeMs', maxRuntimeMs, 1)
  if (!Number.isSafeInteger(retries) || retries < 0) {
    throw invalidOption('retries', retries, 'it must be a whole number of at least 0')
  }
  checkDuration('retryDelayMs', retryDelayMs, 1)
  return { maxRuntimeMs, retries, retryDelayMs }
}

/** Checks the options of a call that runs a job now, and returns its limits. */
export function callOf(taker: string, name: string, options: RunNowOptions): RunLimits {
  checkName('name', name)
  checkOptions(taker, options, callNames)
  checkSignal(options.signal)
  return limitsOf(options)
}

/**
 * Checks the options of `every`, and returns the schedule and the limits of its runs. `leases` is how many lease
 * durations a takeover may last.
 */
export function scheduledOf(
  when: string | Interval,
  options: JobOptions,
  fleet: { readonly leaseDurationMs: number; readonly leases: number },
): { readonly schedule: Schedule; readonly limits: RunLimits } {
  checkOptions('every()', options, jobNames)
  const { name, missed = 'skip' } = options
  checkName('name', name)
  checkOneOf('missed', missed, ['skip', 'run-once'])
  const limits = limitsOf(options)
  const toleranceMs = toleranceMsOf(fleet.leaseDurationMs, fleet.leases)
  if (typeof when !== 'string') {
    if (options.timezone !== undefined) {
      throw invalidOption(
        'timezone',
        options.timezone,
        'an interval cannot have a time zone, because it counts from the epoch',
      )
    }
    const times = intervalTimes(intervalMsOf('schedule', when))
    return { schedule: new Schedule(times, { missed, toleranceMs }), limits }
  }
  return { schedule: cronScheduleOf(when, { ...options, missed, toleranceMs }), limits }
}

function cronScheduleOf(
  pattern: string,
  {
    timezone: zone = 'UTC',
    ...rules
  }: { readonly timezone?: string | undefined; readonly missed: Missed; readonly toleranceMs: number },
): Schedule {
  const timezone = timezoneOf('timezone', zone)
  const times = cronTimes('schedule', pattern, timezone)
  return new Schedule(times, { ...rules, timezone: timezone === 'UTC' ? undefined : timezone })
}

/** Options of {@link cronSchedule}. */
export interface CronScheduleOptions {
  /** Default: UTC. */
  readonly timezone?: string | undefined
  /** What to do about times at which no process could run the job: skip them (default), or run once for all of them. */
  readonly missed?: Missed | undefined
  /**
   * The lease duration of the leadership that follows the schedule. A run is missed after two lease durations, but not
   * before one minute has passed. Default: 15 s.
   */
  readonly leaseDurationMs?: number | undefined
}

/**
 * The schedule of a cron expression, for `followSchedule`.
 *
 * @example
 * const schedule = cronSchedule('0 3 * * *', { timezone: 'Europe/Zurich' })
 */
export function cronSchedule(pattern: string, options: CronScheduleOptions = {}): JobSchedule {
  checkOptions('cronSchedule()', options, { timezone: true, missed: true, leaseDurationMs: true })
  const { timezone, missed = 'skip', leaseDurationMs = 15_000 } = options
  checkOneOf('missed', missed, ['skip', 'run-once'])
  checkDuration('leaseDurationMs', leaseDurationMs, 1)
  if (typeof pattern !== 'string') throw invalidOption('schedule', pattern, 'it must be a cron expression')
  return cronScheduleOf(pattern, { timezone, missed, toleranceMs: toleranceMsOf(leaseDurationMs) })
}
