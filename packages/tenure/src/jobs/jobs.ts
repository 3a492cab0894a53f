import { invalidOption, TenureError } from '../errors.ts'
import { checkName } from '../names.ts'
import { checkSignal, checkStore } from '../options.ts'
import { checkOptions } from '../options/check-options.ts'
import { atMostOncePer, once, tryRun, type Call } from './calls.ts'
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
import type { JobWork } from './perform.ts'
import { Gate, serve, type ScheduledWork } from './scheduled.ts'
import { jobStatus, type JobStatus } from './status.ts'
import { intervalMsOf, type Interval } from './times.ts'
import { Workshop } from './workshop.ts'

/** A job that was given to `every`. */
export interface Job {
  readonly name: string
  /** Ends it here: a run that goes on is asked to stop and waited for. Other processes go on. */
  stop(): Promise<void>
}

/** Jobs that run once in a whole fleet. */
export interface Jobs {
  /**
   * Runs a job at the times of a cron expression or of an interval, each at most once in the fleet. A wrong expression or
   * name is refused at once.
   */
  every(schedule: string | Interval, options: JobOptions, work: JobWork): Job
  /**
   * Runs a job once for ever in the fleet; a call that comes while it runs waits for it. A failure rejects, and the next
   * call runs it again, never two at a time. Work that returns has succeeded: this call does not run it again, even if
   * the lease was lost before the success was recorded.
   */
  once(name: string, work: JobWork, options?: RunNowOptions): Promise<'ran' | 'already-done'>
  /**
   * Runs a job unless the fleet has begun to within the interval before this call. A run that failed counts. Rejects
   * within one lease if the store fails or takes no write, and within two if its calls hang.
   */
  atMostOncePer(interval: Interval, name: string, work: JobWork, options?: RunNowOptions): Promise<'ran' | 'skipped'>
  /**
   * Runs a job now, unless somebody else does: it is busy if the store says so or a renewal of its lease was seen.
   * Rejects within one lease if the store does not answer or takes no write.
   */
  tryRun(name: string, work: JobWork, options?: RunNowOptions): Promise<'ran' | 'busy'>
  /** What became of the jobs that were named here, in the whole fleet: all of `every`, and the last thousand called. */
  status(): Promise<readonly JobStatus[]>
  /** Ends all of it: runs that go on are asked to stop and waited for, leases are released. May be called again. */
  close(): Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}

const readsAtOnce = 20
/** Of more, the oldest are forgotten: a program may call jobs under ever new names. */
const mostCalled = 1_000
/** A take-over of one leader for all jobs is followed by one of the job's own lease. */
const leasesOfTakeOver = { own: 2, shared: 4 }

/**
 * Makes jobs that run once in a whole fleet, on any store with lasting terms. Call it in every process; nothing happens
 * before a job is given.
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
    const text = 'This store keeps nothing between leaders, so no run could be noted in it. Use another store.'
    throw new TenureError('TERMS_REQUIRED', text)
  }
  return new FleetJobs(options)
}

class FleetJobs implements Jobs {
  readonly #workshop: Workshop
  readonly #sharedLeader: string | undefined
  readonly #scheduled = new Map<string, ScheduledWork>()
  /** Names of jobs that were called, the newest last. */
  readonly #called = new Set<string>()
  readonly #forgetSignal: () => void
  #gate: Gate | undefined

  constructor({ signal, sharedLeader, observer, ...options }: JobsOptions) {
    this.#workshop = new Workshop(options, observer)
    this.#sharedLeader = sharedLeader
    const onAbort = () => void this.close()
    signal?.addEventListener('abort', onAbort, { once: true })
    this.#forgetSignal = () => signal?.removeEventListener('abort', onAbort)
    if (signal?.aborted) onAbort()
  }

  every(when: string | Interval, options: JobOptions, work: JobWork): Job {
    const { leaseDurationMs } = this.#workshop
    const leases = this.#sharedLeader === undefined ? leasesOfTakeOver.own : leasesOfTakeOver.shared
    const { schedule, limits } = scheduledOf(when, options, { leaseDurationMs, leases })
    checkWork(work)
    const { name } = options
    if (this.#scheduled.has(name) || this.#called.has(name) || name === this.#sharedLeader) throw takenName(name)
    this.#workshop.throwIfClosed()
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
    return once(this.#workshop, this.#call('once()', name, work, options))
  }

  async atMostOncePer(
    interval: Interval,
    name: string,
    work: JobWork,
    options: RunNowOptions = {},
  ): Promise<'ran' | 'skipped'> {
    const intervalMs = intervalMsOf('interval', interval)
    return atMostOncePer(this.#workshop, this.#call('atMostOncePer()', name, work, options), intervalMs)
  }

  async tryRun(name: string, work: JobWork, options: RunNowOptions = {}): Promise<'ran' | 'busy'> {
    return tryRun(this.#workshop, this.#call('tryRun()', name, work, options))
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
    return this.#workshop.close()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  #serve(job: ScheduledWork): Promise<void> {
    if (this.#sharedLeader === undefined) return serve(job, this.#workshop)
    this.#gate ??= new Gate(this.#sharedLeader, this.#workshop)
    return this.#gate.serve(job)
  }

  #call(taker: string, name: string, work: JobWork, options: RunNowOptions): Call {
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
    const record = await this.#workshop.read(name)
    const known = (record && jobStatus(record)) ?? { name, runs: [] }
    const schedule = this.#scheduled.get(name)?.schedule
    if (!schedule || known.nextRun) return known
    const nextMs = schedule.times.after(this.#workshop.clock.wallMs())
    return {
      ...known,
      schedule: schedule.times.text,
      ...(schedule.timezone !== undefined && { timezone: schedule.timezone }),
      ...(nextMs !== undefined && { nextRun: new Date(nextMs) }),
    }
  }
}

/** Two jobs of one name would share one record. */
function takenName(name: string): TypeError {
  return invalidOption('name', name, 'another job of these, or their shared leader, has it')
}
