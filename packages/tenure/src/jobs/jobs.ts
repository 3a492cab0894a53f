import { invalidOption, TenureError } from '../common/errors.ts'
import { checkName } from '../common/names.ts'
import { checkSignal, checkStore } from '../engine/check-values.ts'
import { checkOptions } from '../common/check-options.ts'
import { atMostOncePer, once, tryRun, type JobCall } from './called-jobs.ts'
import {
  callOf,
  checkJobObserver,
  checkWork,
  jobsNames,
  scheduledOf,
  type RunNowOptions,
  type JobOptions,
  type JobsOptions,
} from './options.ts'
import type { JobWork } from './run-work.ts'
import { SharedLeader, serve, type ScheduledWork } from './scheduled-jobs.ts'
import { jobStatus, type JobStatus } from './status.ts'
import { intervalMsOf, type Interval } from './due-times.ts'
import { JobRuntime } from './job-runtime.ts'

/** A job that was passed to `every`. */
export interface Job {
  readonly name: string
  /** Ends the job in this process. A current run is asked to stop, and is awaited. Other processes continue. */
  stop(): Promise<void>
}

/** Jobs that run once in a whole fleet. */
export interface Jobs {
  /**
   * Runs a job at the times of a cron expression or an interval, at most once per time in the whole fleet. An invalid
   * expression or name throws immediately.
   */
  every(schedule: string | Interval, options: JobOptions, work: JobWork): Job
  /**
   * Runs a job only once in the lifetime of the fleet. A call during a run waits for that run. A failed run rejects,
   * and the next call runs the job again, never two at a time. Work that returns has succeeded: this call does not run
   * it again, even if the lease was lost before the success was recorded.
   */
  once(name: string, work: JobWork, options?: RunNowOptions): Promise<'ran' | 'already-done'>
  /**
   * Runs a job unless the fleet started it within the interval before this call. A failed run also counts. Rejects
   * within one lease duration if the store fails or accepts no write, and within two if its calls hang.
   */
  atMostOncePer(interval: Interval, name: string, work: JobWork, options?: RunNowOptions): Promise<'ran' | 'skipped'>
  /**
   * Runs a job now, unless another process is running it. The job is busy if the store says so or a renewal of its
   * lease was observed. Rejects within one lease duration if the store does not answer or accepts no write.
   */
  tryRun(name: string, work: JobWork, options?: RunNowOptions): Promise<'ran' | 'busy'>
  /**
   * The fleet-wide status of all jobs used in this process: all jobs of `every`, and the last thousand jobs that were
   * called.
   */
  status(): Promise<readonly JobStatus[]>
  /**
   * Closes all jobs: current runs are asked to stop and are awaited, and leases are released. May be called repeatedly.
   */
  close(): Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}

const readsAtOnce = 20
/** Beyond this number the oldest names are forgotten, because a program may keep calling jobs under new names. */
const mostCalled = 1_000
/**
 * How many lease durations a takeover may last. With a shared leader, its takeover is followed by that of the job's own
 * lease.
 */
const leasesOfTakeOver = { own: 2, shared: 4 }

/**
 * Creates jobs that run once in a whole fleet, on any store with durable terms. Call it in every process. Nothing
 * happens until a job is added.
 *
 * @example
 * const jobs = createJobs({ store, signal })
 * jobs.every('0 3 * * *', { name: 'nightly-report', timezone: 'Europe/Zurich' }, ({ signal }) => report({ signal }))
 * jobs.every({ minutes: 5 }, { name: 'sync' }, sync)
 * await jobs.once('migrate-v42', migrate)
 */
export function createJobs(options: JobsOptions): Jobs {
  checkOptions('createJobs()', options, jobsNames)
  checkStore(options.store)
  checkSignal(options.signal)
  checkJobObserver(options.observer)
  if (options.sharedLeader !== undefined) checkName('sharedLeader', options.sharedLeader)
  if (!options.store.terms) {
    const text = 'This store keeps no record between leaders, so runs cannot be recorded in it. Use another store.'
    throw new TenureError('TERMS_REQUIRED', text)
  }
  return new FleetJobs(options)
}

class FleetJobs implements Jobs {
  readonly #runtime: JobRuntime
  readonly #sharedLeader: string | undefined
  readonly #scheduled = new Map<string, ScheduledWork>()
  /** Names of the jobs that were called, the newest last. */
  readonly #called = new Set<string>()
  readonly #forgetSignal: () => void
  #gate: SharedLeader | undefined

  constructor({ signal, sharedLeader, observer, ...options }: JobsOptions) {
    this.#runtime = new JobRuntime(options, observer)
    this.#sharedLeader = sharedLeader
    const onAbort = () => void this.close()
    signal?.addEventListener('abort', onAbort, { once: true })
    this.#forgetSignal = () => signal?.removeEventListener('abort', onAbort)
    if (signal?.aborted) onAbort()
  }

  every(when: string | Interval, options: JobOptions, work: JobWork): Job {
    const { leaseDurationMs } = this.#runtime
    const leases = this.#sharedLeader === undefined ? leasesOfTakeOver.own : leasesOfTakeOver.shared
    const { schedule, limits } = scheduledOf(when, options, { leaseDurationMs, leases })
    checkWork(work)
    const { name } = options
    if (this.#scheduled.has(name) || this.#called.has(name) || name === this.#sharedLeader) throw takenName(name)
    this.#runtime.throwIfClosed()
    const ending = new AbortController()
    const job: ScheduledWork = { name, schedule, limits, work, ended: ending.signal }
    this.#scheduled.set(name, job)
    const serving = this.#serve(job)
    return {
      name,
      stop: async () => {
        ending.abort()
        await serving
        if (this.#scheduled.get(name) === job) this.#scheduled.delete(name)
      },
    }
  }

  async once(name: string, work: JobWork, options: RunNowOptions = {}): Promise<'ran' | 'already-done'> {
    return once(this.#runtime, this.#call('once()', name, work, options))
  }

  async atMostOncePer(
    interval: Interval,
    name: string,
    work: JobWork,
    options: RunNowOptions = {},
  ): Promise<'ran' | 'skipped'> {
    const intervalMs = intervalMsOf('interval', interval)
    return atMostOncePer(this.#runtime, this.#call('atMostOncePer()', name, work, options), intervalMs)
  }

  async tryRun(name: string, work: JobWork, options: RunNowOptions = {}): Promise<'ran' | 'busy'> {
    return tryRun(this.#runtime, this.#call('tryRun()', name, work, options))
  }

  async status(): Promise<readonly JobStatus[]> {
    const names = [...new Set([...this.#scheduled.keys(), ...this.#called])].toSorted()
    const all: JobStatus[] = []
    for (let from = 0; from < names.length; from += readsAtOnce) {
      all.push(...(await Promise.all(names.slice(from, from + readsAtOnce).map((name) => this.#statusOf(name)))))
    }
    return all
  }

  close(): Promise<void> {
    this.#forgetSignal()
    return this.#runtime.close()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  #serve(job: ScheduledWork): Promise<void> {
    if (this.#sharedLeader === undefined) return serve(job, this.#runtime)
    this.#gate ??= new SharedLeader(this.#sharedLeader, this.#runtime)
    return this.#gate.serve(job)
  }

  #call(taker: string, name: string, work: JobWork, options: RunNowOptions): JobCall {
    const limits = callOf(taker, name, options)
    checkWork(work)
    if (this.#scheduled.has(name) || name === this.#sharedLeader) throw takenName(name)
    this.#remember(name)
    return { name, work, limits, signal: options.signal }
  }

  #remember(name: string): void {
    this.#called.delete(name)
    this.#called.add(name)
    if (this.#called.size <= mostCalled) return
    for (const oldest of this.#called) return void this.#called.delete(oldest)
  }

  async #statusOf(name: string): Promise<JobStatus> {
    const record = await this.#runtime.read(name)
    const known = (record && jobStatus(record)) ?? { name, runs: [] }
    const schedule = this.#scheduled.get(name)?.schedule
    if (!schedule || known.nextRun) return known
    const nextMs = schedule.times.after(this.#runtime.clock.wallMs())
    return {
      ...known,
      schedule: schedule.times.text,
      ...(schedule.timezone !== undefined && { timezone: schedule.timezone }),
      ...(nextMs !== undefined && { nextRun: new Date(nextMs) }),
    }
  }
}

/** Two jobs of the same name would share one record. */
function takenName(name: string): TypeError {
  return invalidOption('name', name, 'it is already used by another job or by the shared leader')
}
