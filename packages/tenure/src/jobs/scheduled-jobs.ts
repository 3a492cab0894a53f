/** Scheduled jobs of a process, which runs them whenever it leads. */
import { setMaxListeners } from 'node:events'
import { pause } from '@tenure/internal/pause'
import type { Leadership } from '../engine/leadership.ts'
import { leadWith, untilStopped } from '../api/lead-with.ts'
import type { JobEventBody } from './events.ts'
import { followSchedule, type FollowResult, type ScheduledJob } from './follow-schedule.ts'
import { isRequestedEnd, perform, type JobWork, type RunLimits } from './run-work.ts'
import type { Schedule } from './schedule.ts'
import type { JobRuntime } from './job-runtime.ts'

/** A job that was passed to `every`. */
export interface ScheduledWork {
  readonly name: string
  readonly schedule: Schedule
  readonly limits: RunLimits
  readonly work: JobWork
  /** Aborts when the job should end in this process. */
  readonly ended: AbortSignal
}

/** How long to wait before retrying a job whose record cannot be used. */
const unusableMs = 60_000
/** The wall clock may be set at any time, so every wait on it is short. */
const longestSleepMs = 10_000

/** Runs a job on its schedule while this leadership lasts. */
function follow(
  leadership: Leadership,
  { name, schedule, limits, work }: ScheduledWork,
  { clock, reporter }: JobRuntime,
  leaves: NonNullable<ScheduledJob<never>['leaves']>,
): Promise<FollowResult<never>> {
  const tell: ScheduledJob<never>['tell'] = (happening) => reporter.tell(name, happening)
  return followSchedule<never>(leadership, {
    schedule,
    clock,
    leaves,
    tell,
    perform: ({ run, nextMs }) => perform({ leadership, clock, run, untilMs: nextMs, work, tell, ...limits }),
  })
}

/**
 * Runs a job with its own leader. The process keeps leading between runs, or lets others lead if there is time for
 * that.
 */
export function serve(job: ScheduledWork, runtime: JobRuntime): Promise<void> {
  const { clock, reporter, leaseDurationMs, retryIntervalMs } = runtime
  // Step down after a run, so that the process that started first does not keep all jobs of the fleet.
  const leaves = (nextMs: number | undefined, hasRun: boolean) =>
    hasRun && nextMs !== undefined && nextMs - clock.wallMs() > leaseDurationMs
  return runtime.withPreferringElector(job.name, async (elector) => {
    elector.start({ signal: job.ended })
    for (;;) {
      const leadership = await elector.waitForLeadership().catch(() => undefined)
      if (!leadership) return
      const following = follow(leadership, job, runtime, leaves).then(
        // The cooldown is long enough for others to take over, and ends before the next run is due.
        ({ hasLeft }) => (hasLeft ? Math.min(2 * retryIntervalMs, leaseDurationMs / 2) : undefined),
        (error: unknown) => {
          reporter.tell(job.name, { type: 'error', error })
          return unusableMs
        },
      )
      try {
        leadership.waitUntil(following)
      } catch {
        // Leadership ended before the work was registered. Nothing was recorded, so nothing is run.
      }
      // A stop settles even if a run never settles.
      const cooldownMs = await Promise.race([following, untilStopped(elector, leadership)])
      if (cooldownMs !== undefined) await elector.stepDown({ cooldownMs })
    }
  })
}

/**
 * Runs a job while `gate`, the shared leader of all jobs, leads. The job's own lease is acquired for each run that is
 * due and released afterwards, so the job costs nothing in between. That lease alone makes the runs safe. The shared
 * leader only decides which process runs them.
 */
export async function serveUnderSharedLeader(gate: Leadership, job: ScheduledWork, runtime: JobRuntime): Promise<void> {
  const { clock, reporter } = runtime
  const goesOn = () => gate.isLeader() && !job.ended.aborted
  while (goesOn()) {
    const tell = (happening: JobEventBody) => {
      if (goesOn()) reporter.tell(job.name, happening)
    }
    let nextMs: number | undefined
    try {
      const followed = await runUnderOwnLease(gate, job, runtime)
      // The job's own lease was lost. The next iteration campaigns for it again.
      if (!followed.hasLeft) continue
      nextMs = followed.nextMs
      if (nextMs !== undefined) tell({ type: 'scheduled', scheduledAt: new Date(nextMs) })
    } catch (error) {
      tell({ type: 'error', error })
      nextMs = clock.wallMs() + unusableMs
    }
    for (let waitMs = 1; waitMs > 0 && goesOn();) {
      waitMs = (nextMs ?? Infinity) - clock.wallMs()
      if (waitMs > 0) await wait(Math.min(waitMs, longestSleepMs), gate, job, runtime)
    }
  }
}

async function wait(ms: number, gate: Leadership, job: ScheduledWork, { clock }: JobRuntime): Promise<void> {
  const controller = new AbortController()
  const end = () => controller.abort()
  for (const signal of [gate.signal, job.ended]) signal.addEventListener('abort', end, { once: true })
  await pause(clock, ms, controller.signal)
  for (const signal of [gate.signal, job.ended]) signal.removeEventListener('abort', end)
}

function runUnderOwnLease(gate: Leadership, job: ScheduledWork, runtime: JobRuntime): Promise<FollowResult<never>> {
  return runtime.withElector(job.name, async (elector) => {
    // A run that has started continues under its own lease. A campaign stops, because the next shared leader will run
    // the job.
    const end = () => {
      if (!elector.isLeader()) void elector.stop()
    }
    gate.signal.addEventListener('abort', end, { once: true })
    try {
      const plan = { onLoss: 'throw' as const, signal: job.ended, trustsWork: true }
      return await leadWith(elector, plan, (leadership) => follow(leadership, job, runtime, () => true))
    } finally {
      gate.signal.removeEventListener('abort', end)
    }
  })
}

/** Settles with the work, or when leadership is lost. After stop() or stepDown(), it waits for the work. */
function unlessLost({ signal }: Leadership, work: Promise<void>): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      if (!isRequestedEnd(signal)) resolve()
    }
    signal.addEventListener('abort', end, { once: true })
    // Remove the listener, because a leadership may last for months while jobs are added and stopped.
    void work.finally(() => signal.removeEventListener('abort', end)).then(resolve)
  })
}

/** The shared leader of all jobs in a program. */
export class SharedLeader {
  readonly #runtime: JobRuntime
  readonly #jobs = new Map<ScheduledWork, Promise<void>>()
  #leadership: Leadership | undefined

  constructor(election: string, runtime: JobRuntime) {
    this.#runtime = runtime
    void runtime.withPreferringElector(election, async (elector) => {
      elector.start()
      for (;;) {
        const leadership = await elector.waitForLeadership().catch(() => undefined)
        if (!leadership) return
        this.#leadership = leadership
        // Each job adds a listener. A thousand of them are not a leak.
        setMaxListeners(0, leadership.signal)
        for (const job of this.#jobs.keys()) this.#begin(job)
        const { signal } = leadership
        if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
      }
    })
  }

  /** Runs a job whenever this process is the shared leader. Settles when the job has ended in this process. */
  serve(job: ScheduledWork): Promise<void> {
    this.#jobs.set(job, Promise.resolve())
    this.#begin(job)
    return new Promise((resolve) => {
      const end = () => {
        resolve(this.#jobs.get(job))
        this.#jobs.delete(job)
      }
      if (job.ended.aborted) end()
      else job.ended.addEventListener('abort', end, { once: true })
    })
  }

  #begin(job: ScheduledWork): void {
    const leadership = this.#leadership
    if (!leadership?.isLeader()) return
    // Wait until the job has ended in an earlier leadership, because a run may still continue under its own lease.
    const before = this.#jobs.get(job)
    const serving = Promise.resolve(before).then(() => serveUnderSharedLeader(leadership, job, this.#runtime))
    this.#jobs.set(job, serving)
    try {
      // The shared lease is not released while a job runs. If it is lost, the other jobs do not wait for that run.
      leadership.waitUntil(unlessLost(leadership, serving))
    } catch {
      // Leadership has already ended, so `serving` ends on its own.
    }
  }
}
