/** Jobs that run once in a whole fleet. */
export type { RunReport } from './book.ts'
export { followSchedule, type DueRun, type Followed, type FollowedJob, type FollowReport } from './follow.ts'
export { createJobs, type Job, type Jobs } from './jobs.ts'
export type { JobEvent, JobHappening, JobObserver } from './events.ts'
export type { JobResult, JobRun } from './note.ts'
export { runAtMostOncePer, type SparseJob, type Sparsely } from './once-per.ts'
export {
  cronSchedule,
  type CronScheduleOptions,
  type JobOptions,
  type JobsOptions,
  type RunNowOptions,
  type RunOptions,
} from './options.ts'
export type { JobContext, JobWork } from './perform.ts'
export type { JobSchedule, Missed, Slot } from './schedule.ts'
export { jobStatus, type JobStatus } from './status.ts'
export type { Interval, Times } from './times.ts'
