import type { LeaseRecord } from '../engine/lease-store.ts'
import { jobStateOf, withLostRuns, type JobRun } from './job-state.ts'

/**
 * The status of a job, according to its record.
 *
 * @example
 * for (const { name, nextRun, runs } of await jobs.status()) console.log(name, nextRun, runs[0]?.result)
 */
export interface JobStatus {
  readonly name: string
  /** The schedule, as words or as a cron expression. */
  readonly schedule?: string | undefined
  readonly timezone?: string | undefined
  /** The most recent scheduled time whose run has started, whether or not it has finished. */
  readonly lastRun?: Date | undefined
  readonly nextRun?: Date | undefined
  /** When a job of `once` succeeded. */
  readonly doneAt?: Date | undefined
  /** The process that holds the job's lease. */
  readonly leader?: string | undefined
  readonly term?: number | undefined
  /** The current run. */
  readonly running?: JobRun | undefined
  /** The most recent runs, the newest first, as many as fit in the record. */
  readonly runs: readonly JobRun[]
}

/**
 * Reads the status of a job from its record. Undefined if the record does not belong to a job. For tools that inspect a
 * store.
 *
 * @example
 * const { records } = await store.list({}, { signal })
 * for (const record of records) console.log(jobStatus(record)?.nextRun)
 */
export function jobStatus(record: LeaseRecord): JobStatus | undefined {
  const note = record.checkpoint === '' ? undefined : jobStateOf(record.checkpoint)
  if (!note) return undefined
  const { lastRunMs, nextRunMs, doneMs, schedule, timezone } = note
  const { runs } = withLostRuns(note, record.released ? undefined : record.term)
  const running = runs.find(({ result }) => result === undefined)
  // The very first leader records its starting time as the last run, although no run took place.
  const hasRun = schedule === undefined || runs.some(({ begunAt }) => begunAt)
  return {
    name: record.election,
    ...(schedule !== undefined && { schedule }),
    ...(timezone !== undefined && { timezone }),
    ...(lastRunMs !== undefined && hasRun && { lastRun: new Date(lastRunMs) }),
    ...(nextRunMs !== undefined && { nextRun: new Date(nextRunMs) }),
    ...(doneMs !== undefined && { doneAt: new Date(doneMs) }),
    ...(!record.released && { leader: record.holder }),
    term: record.term,
    ...(running && { running }),
    runs,
  }
}
