import { systemClock, type Clock } from '../common/clock.ts'
import type { Leadership } from '../engine/leadership.ts'
import { JobLog, type RunReport } from './job-log.ts'
import { safeListener, type JobEventBody } from './events.ts'
import type { JobState, JobRun } from './job-state.ts'

/** A rate-limited job, which is called more often than it should run. */
export interface RateLimitedJob<Report extends RunReport> {
  readonly intervalMs: number
  /** Default: the system clock. */
  readonly clock?: Clock | undefined
  /** Returns how long ago the call was made. */
  calledAgoMs(): number
  perform(run: JobRun): Promise<Report | undefined>
  /** Receives events. Errors that it throws or rejects with are dropped. */
  tell(happening: JobEventBody): void
}

/** The result: the time of an earlier run that already serves this call, or the outcome of this call's own run. */
export type RateLimitedResult<Report> = { readonly servedMs: number } | { readonly report: Report | undefined }

/**
 * The time of the last run, if it was within the interval before the call. A run that is in the future on this clock
 * also counts.
 */
export function servedMsOf({ lastRunMs }: JobState, intervalMs: number, calledMs: number): number | undefined {
  return lastRunMs !== undefined && calledMs - lastRunMs < intervalMs ? lastRunMs : undefined
}

/**
 * Runs a job unless the fleet has done so recently. A run counts from its start, even if it failed. This is for
 * programs that campaign on their own, such as the command `tenure run`. `jobs.atMostOncePer` is simpler.
 *
 * @example
 * const outcome = await runAtMostOncePer(leadership, {
 *   intervalMs: 3_600_000,
 *   calledAgoMs: () => clock.monotonicMs() - calledMs,
 *   perform: async () => ({ result: (await job()) ? 'succeeded' : 'failed' }),
 *   tell: (happening) => console.log(happening.type),
 * })
 * if ('servedMs' in outcome) console.log('nothing to do')
 */
export async function runAtMostOncePer<Report extends RunReport>(
  leadership: Leadership,
  job: RateLimitedJob<Report>,
): Promise<RateLimitedResult<Report>> {
  const { clock = systemClock } = job
  const tell = safeListener((happening) => job.tell(happening))
  const jobLog = new JobLog(leadership, clock, tell)
  const nowMs = clock.wallMs()
  // If another process ran the job while this call waited, that run serves this call.
  const servedMs = servedMsOf(jobLog.note, job.intervalMs, nowMs - Math.max(0, job.calledAgoMs()))
  if (servedMs !== undefined) return { servedMs }
  const done = await jobLog.run({ scheduledMs: nowMs, head: { lastRunMs: nowMs }, perform: (run) => job.perform(run) })
  return { report: done?.report }
}
