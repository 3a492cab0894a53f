import { candidateNames, type ElectorOptions } from '../elector.ts'
import { invalidOption } from '../errors.ts'
import { checkName } from '../names.ts'
import { checkOneOf, checkSignal } from '../options.ts'
import { checkMembers, checkOptions, type OptionNames } from '../options/check-options.ts'
import { checkDuration } from '../timings.ts'
import { cronTimes, timezoneOf } from './cron.ts'
import type { JobObserver } from './events.ts'
import type { RunLimits } from './perform.ts'
import { Schedule, toleranceMsOf, type JobSchedule, type Missed } from './schedule.ts'
import { intervalMsOf, intervalTimes, type Interval } from './times.ts'

/** What {@link createJobs} takes: what an elector does, without an election, and more. `store` is enough. */
export interface JobsOptions extends Omit<ElectorOptions, 'election' | 'observer'> {
  /** Closes the jobs when it aborts. */
  readonly signal?: AbortSignal | undefined
  /**
   * The election of one leader that runs all of these jobs. Left out, each job has a leader of its own, and they are
   * spread over the fleet.
   */
  readonly sharedLeader?: string | undefined
  /** Gets what happens to the jobs too. Without one, the log has each run that fails or is missed. */
  readonly observer?: JobObserver | undefined
}

/** How a run is limited, and tried again. */
export interface RunOptions {
  /** How long a run may take, with all its tries. After that its signal aborts. Default: as long as it takes. */
  readonly maxRuntimeMs?: number | undefined
  /** How often a run that failed is tried again, by the same process in the same term. Default: 0. */
  readonly retries?: number | undefined
  /** The pause before the first of these; it doubles each time, up to a minute. Default: 1 s. */
  readonly retryDelayMs?: number | undefined
}

/** What a call takes that runs a job now. */
export interface RunNowOptions extends RunOptions {
  /** Ends it: the work drains, the lease is released, and the call rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined
}

/** What `jobs.every` takes. `name` is enough. */
export interface JobOptions extends RunOptions {
  /** The same in the whole fleet. It is the name of the job's election, and of its record. */
  readonly name: string
  /** Of a cron expression. Default: UTC. */
  readonly timezone?: string | undefined
  /** What to do about times when nobody could run it: leave them out (default), or one run for all of them. */
  readonly missed?: Missed | undefined
}

export const jobsNames: OptionNames<JobsOptions> = { ...candidateNames, signal: true, sharedLeader: true }
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
    throw invalidOption('retries', retries, 'it must be a whole number from 0 on')
  }
  checkDuration('retryDelayMs', retryDelayMs, 1)
  return { maxRuntimeMs, retries, retryDelayMs }
}

/** The options of a call that runs a job now. */
export function callOf(taker: string, name: string, options: RunNowOptions): RunLimits {
  checkName('name', name)
  checkOptions(taker, options, callNames)
  checkSignal(options.signal)
  return limitsOf(options)
}

/** A schedule, and the limits of its runs. `leases`: how many a take-over may last. */
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
      throw invalidOption('timezone', options.timezone, 'an interval has none: it counts from the epoch')
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

/** What {@link cronSchedule} takes. */
export interface CronScheduleOptions {
  /** Default: UTC. */
  readonly timezone?: string | undefined
  /** What to do about times when nobody could run it: leave them out (default), or one run for all of them. */
  readonly missed?: Missed | undefined
  /** The lease of the leadership that follows it: a time is missed after two of them, at least a minute. Default: 15 s. */
  readonly leaseDurationMs?: number | undefined
}

/**
 * The times of a cron expression, for `followSchedule`.
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
