import { pause } from '@tenure/internal/pause'
import { systemClock, type Clock } from '../common/clock.ts'
import type { Leadership } from '../engine/leadership.ts'
import { JobLog, type RunReport } from './job-log.ts'
import { safeListener, type JobEventBody } from './events.ts'
import type { JobState, JobRun } from './job-state.ts'
import type { JobSchedule } from './schedule.ts'

/** A run that is due. */
export interface DueRun {
  readonly run: JobRun
  /** When the next run is due. Undefined if there is none. */
  readonly nextMs: number | undefined
}

/** The outcome of one run of a schedule. */
export interface FollowReport<Final> extends RunReport {
  /** The result of the whole schedule, which ends with this run. Undefined if the schedule continues. */
  readonly final?: Final | undefined
}

/** A job with a schedule. */
export interface ScheduledJob<Final> {
  readonly schedule: JobSchedule
  /** Default: the system clock. */
  readonly clock?: Clock | undefined
  /** Performs one run. Resolves with undefined if it was too late to start. */
  perform(due: DueRun): Promise<FollowReport<Final> | undefined>
  /** Receives events. Errors that it throws or rejects with are dropped. */
  tell(happening: JobEventBody): void
  /** Whether to return instead of waiting for the next run. `hasRun` is true after at least one run. */
  leaves?(nextMs: number | undefined, hasRun: boolean): boolean
}

/**
 * Why the schedule ended. `final` is the result of a run. `nextMs` is the next run, if `leaves` decided not to wait for
 * it. Both are undefined if leadership ended.
 */
export interface FollowResult<Final> {
  readonly final?: Final | undefined
  readonly nextMs?: number | undefined
  readonly hasLeft: boolean
}

/** The wall clock may be set at any time, so every wait on it is short. */
const longestSleepMs = 10_000

/**
 * Runs a job on its schedule for as long as a leadership lasts, at most once per scheduled time in the whole fleet. The
 * time is recorded before the run starts, and no time at or before the recorded one is ever run again. This is for
 * programs that campaign on their own, such as the command `tenure run`. `createJobs` is simpler.
 *
 * @example
 * const leadership = await elector.waitForLeadership()
 * leadership.waitUntil(
 *   followSchedule(leadership, {
 *     schedule: cronSchedule('0 3 * * *'),
 *     perform: async ({ run }) => ({ result: (await report(run.scheduledAt)) ? 'succeeded' : 'failed' }),
 *     tell: (happening) => console.log(happening.type),
 *   }),
 * )
 */
export async function followSchedule<Final>(
  leadership: Leadership,
  job: ScheduledJob<Final>,
): Promise<FollowResult<Final>> {
  const { schedule, clock = systemClock } = job
  const tell = safeListener((happening) => job.tell(happening))
  const jobLog = new JobLog(leadership, clock, tell)
  let lastMs = await baseline(jobLog, schedule, clock)
  let announcedMs: number | undefined
  let hasRun = false
  while (leadership.isLeader()) {
    const slot = schedule.next(lastMs, clock.wallMs())
    if (slot && slot.waitMs <= 0) {
      const final = await runSlot(slot.slotMs, jobLog, job)
      if (final !== undefined) return { final, hasLeft: false }
      lastMs = slot.slotMs
      hasRun = true
      continue
    }
    if (slot?.missedMs !== undefined) {
      await jobLog.leaveOut(slot.missedMs)
      // The wall clock advanced while the skipped time was recorded. Continue after that time, so that the next
      // iteration does not record it again.
      lastMs = slot.missedMs
      continue
    }
    if (job.leaves?.(slot?.slotMs, hasRun)) return { nextMs: slot?.slotMs, hasLeft: true }
    if (slot && slot.slotMs !== announcedMs) tell({ type: 'scheduled', scheduledAt: new Date(slot.slotMs) })
    announcedMs = slot?.slotMs
    await pause(clock, Math.min(slot?.waitMs ?? longestSleepMs, longestSleepMs), leadership.signal)
  }
  return { hasLeft: false }
}

/**
 * Determines the time after which runs count. The very first leader starts with the next slot and records that for its
 * successors.
 */
async function baseline(jobLog: JobLog, schedule: JobSchedule, clock: Clock): Promise<number> {
  const { lastRunMs } = jobLog.note
  if (lastRunMs !== undefined) return lastRunMs
  const beginMs = schedule.times.latest(clock.wallMs()) ?? 0
  await jobLog.write(headOf(beginMs, schedule))
  return beginMs
}

function headOf(slotMs: number, { times, timezone }: JobSchedule): Partial<JobState> {
  return { lastRunMs: slotMs, nextRunMs: times.after(slotMs), schedule: times.text, timezone }
}

async function runSlot<Final>(slotMs: number, jobLog: JobLog, job: ScheduledJob<Final>): Promise<Final | undefined> {
  const head = headOf(slotMs, job.schedule)
  const nextMs = head.nextRunMs
  const done = await jobLog.run({
    scheduledMs: slotMs,
    head,
    async perform(run) {
      const forget = reportIfStillRunning(nextMs, run, job)
      try {
        return await job.perform({ run, nextMs })
      } finally {
        forget()
      }
    },
  })
  return done?.report.final
}

/** Reports once that a run is still running when the next one is due. */
function reportIfStillRunning<Final>(nextMs: number | undefined, run: JobRun, job: ScheduledJob<Final>): () => void {
  if (nextMs === undefined) return () => undefined
  const { clock = systemClock } = job
  const tell = safeListener((happening) => job.tell(happening))
  const look = () => {
    const waitMs = nextMs - clock.wallMs()
    if (waitMs > 0) timer = clock.setTimer(Math.min(waitMs, longestSleepMs), look, { background: true })
    else tell({ type: 'still-running', run, scheduledAt: new Date(nextMs) })
  }
  let timer = clock.setTimer(0, look, { background: true })
  return () => timer.cancel()
}
