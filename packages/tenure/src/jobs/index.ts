/** Jobs that run once in a whole fleet. */
export type { RunReport } from './job-log.ts'
export {
  followSchedule,
  type DueRun,
  type FollowResult,
  type ScheduledJob,
  type FollowReport,
} from './follow-schedule.ts'
export { createJobs, type Job, type Jobs } from './jobs.ts'
export type { JobEvent, JobEventBody, JobObserver } from './events.ts'
export type { JobResult, JobRun } from './job-state.ts'
export { runAtMostOncePer, type RateLimitedJob, type RateLimitedResult } from './rate-limited-job.ts'
export {
  cronSchedule,
  type CronScheduleOptions,
  type JobOptions,
  type JobsOptions,
  type RunNowOptions,
  type RunOptions,
} from './options.ts'
export type { JobContext, JobWork } from './run-work.ts'
export type { JobSchedule, Missed, Slot } from './schedule.ts'
export { jobStatus, type JobStatus } from './status.ts'
export type { Interval, Times } from './due-times.ts'
