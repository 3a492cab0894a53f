/** Jobs that run once in a whole fleet. */
export { createJobs, type Job, type Jobs } from './jobs.ts'
export type { JobEvent, JobHappening, JobObserver } from './events.ts'
export type { JobResult, JobRun } from './note.ts'
export type { RunNowOptions, JobOptions, JobsOptions, RunOptions } from './options.ts'
export type { JobContext, JobWork } from './perform.ts'
export type { Missed } from './schedule.ts'
export { jobStatus, type JobStatus } from './status.ts'
export type { Interval } from './times.ts'
