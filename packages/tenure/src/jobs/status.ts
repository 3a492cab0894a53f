import type { LeaseRecord } from '../lease-store.ts'
import { noteOf, withLostRuns, type JobRun } from './note.ts'

/**
 * What is known of a job, as its record tells.
 *
 * @example
 * for (const { name, nextRun, runs } of await jobs.status()) console.log(name, nextRun, runs[0]?.result)
 */
export interface JobStatus {
  readonly name: string
  /** When it is due, in words or as a cron expression. */
  readonly schedule?: string | undefined
  readonly timezone?: string | undefined
  /** The newest time that was run, or is being run. */
  readonly lastRun?: Date | undefined
  readonly nextRun?: Date | undefined
  /** When a job of `once` succeeded. */
  readonly doneAt?: Date | undefined
  /** The process that has its lease. */
  readonly leader?: string | undefined
  readonly term?: number | undefined
  /** The run that is going on. */
  readonly running?: JobRun | undefined
  /** The last ones, the newest first; as many as there was room for. */
  readonly runs: readonly JobRun[]
}

/**
 * What a record tells of a job; nothing if it is not one of a job. For tools that look into a store.
 *
 * @example
 * const { records } = await store.list({}, { signal })
 * for (const record of records) console.log(jobStatus(record)?.nextRun)
 */
export function jobStatus(record: LeaseRecord): JobStatus | undefined {
  const note = record.carry === '' ? undefined : noteOf(record.carry)
  if (!note) return undefined
  const { lastRunMs, nextRunMs, doneMs, schedule, timezone } = note
  const { runs } = withLostRuns(note, record.released ? undefined : record.term)
  const running = runs.find(({ result }) => result === undefined)
  // The first leader notes where it begins, which nobody ran.
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
