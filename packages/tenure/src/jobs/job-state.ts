/**
 * The job state that each leader leaves to its successors in the checkpoint of the job's record, as JSON. `lastRun`
 * alone decides which times are never run again, and unknown fields are ignored. So a fleet can run two versions at the
 * same time.
 */
import { decodeJob, type DecodedRun } from '@tenure/internal/job-state'
import { TenureError } from '../common/errors.ts'
import { usualCheckpointLimitBytes } from '../engine/check-values.ts'

/** How a run ended. `lost` means that its process died or lost the lease, so its progress is unknown. */
export type JobResult = 'succeeded' | 'failed' | 'timed-out' | 'stopped' | 'lost' | 'missed'

/**
 * One run of a job, according to its record. Times are from the clock of the process that ran it.
 *
 * @example
 * const [newest] = status.runs
 * if (newest?.result === 'failed') console.log(newest.scheduledAt, newest.by, newest.error)
 */
export interface JobRun {
  readonly scheduledAt: Date
  /** Undefined for a time that was skipped. */
  readonly begunAt?: Date | undefined
  readonly endedAt?: Date | undefined
  readonly durationMs?: number | undefined
  /** The identity of the process. */
  readonly by?: string | undefined
  readonly term?: number | undefined
  /** The number of tries, if more than one. */
  readonly tries?: number | undefined
  /** Undefined while the job is running. */
  readonly result?: JobResult | undefined
  /** The error message of a failed run. */
  readonly error?: string | undefined
}

/** The state of a job. */
export interface JobState {
  /** The most recent scheduled time whose run has started. No time at or before it is ever run again. */
  readonly lastRunMs?: number | undefined
  /** The next scheduled time, for display. */
  readonly nextRunMs?: number | undefined
  /** The schedule, for display. */
  readonly schedule?: string | undefined
  readonly timezone?: string | undefined
  /** When a job of `once` succeeded. */
  readonly doneMs?: number | undefined
  /** The recorded runs, newest first. */
  readonly runs: readonly JobRun[]
}

/** Only this many runs are kept. */
export const mostRuns = 10
const longestError = 300
const longestSchedule = 200
const results: readonly string[] = ['succeeded', 'failed', 'timed-out', 'stopped', 'lost', 'missed']

/**
 * Parses the job state in a checkpoint. An empty one means that the job was never run. Throws if another program wrote
 * it.
 */
export function parseJobState(job: string, checkpoint: string): JobState {
  const note = jobStateOf(checkpoint)
  if (note) return note
  throw new TenureError(
    'RECORD_INVALID',
    `The record of "${job}" contains data that was not written by a job, so another program uses this election. ` +
      'Choose another name for the job.',
  )
}

/** Parses the job state in a checkpoint. Undefined if it was not written by a job. */
export function jobStateOf(checkpoint: string): JobState | undefined {
  if (checkpoint === '') return { runs: [] }
  const job = decodeJob(checkpoint)
  return job && definedOf({ ...job, runs: job.runs.map(runOf) })
}

function runOf({ atMs, begunMs, endedMs, result, ...run }: DecodedRun): JobRun {
  return definedOf({
    scheduledAt: new Date(atMs),
    begunAt: dateOf(begunMs),
    endedAt: dateOf(endedMs),
    ...run,
    result: results.includes(result ?? '') ? (result as JobResult) : undefined,
  })
}

/** Serializes the job state, with as many of the newest runs as fit. */
export function formatJobState(note: JobState): string {
  const { lastRunMs, nextRunMs, schedule, timezone, doneMs } = note
  const head = {
    ...(lastRunMs !== undefined && { lastRun: iso(lastRunMs) }),
    ...(doneMs !== undefined && { done: iso(doneMs) }),
    ...(nextRunMs !== undefined && { nextRun: iso(nextRunMs) }),
    ...(schedule !== undefined && { schedule: cut(schedule, longestSchedule) }),
    ...(timezone !== undefined && { timezone: cut(timezone, longestSchedule) }),
  }
  const fitting = (runs: readonly object[]) => {
    const text = JSON.stringify({ ...head, runs })
    return Buffer.byteLength(text) <= usualCheckpointLimitBytes ? text : undefined
  }
  for (let count = mostRuns; count > 0; count -= 1) {
    const text = fitting(note.runs.slice(0, count).map((run) => fieldsOf(run)))
    if (text !== undefined) return text
  }
  // Only multi-byte characters can make a single run too long.
  return fitting(note.runs.slice(0, 1).map((run) => fieldsOf(run, longestError / 10))) ?? JSON.stringify(head)
}

function fieldsOf(run: JobRun, mostError = longestError): object {
  return {
    at: run.scheduledAt.toISOString(),
    begun: run.begunAt?.toISOString(),
    ended: run.endedAt?.toISOString(),
    ms: run.durationMs === undefined ? undefined : Math.round(run.durationMs),
    by: run.by,
    term: run.term,
    tries: run.tries,
    result: run.result,
    error: run.error === undefined ? undefined : cut(run.error, mostError),
  }
}

/** Marks unfinished runs of other terms as lost, because their process died or lost its lease. */
export function withLostRuns(note: JobState, term: number | undefined): JobState {
  const runs = note.runs.map((run) =>
    run.result === undefined && run.term !== term ? { ...run, result: 'lost' as const } : run,
  )
  return { ...note, runs }
}

function cut(text: string, most: number): string {
  return text.length > most ? `${text.slice(0, most).toWellFormed()}…` : text.toWellFormed()
}

function dateOf(ms: number | undefined): Date | undefined {
  return ms === undefined ? undefined : new Date(ms)
}

/** Removes undefined fields, so that a job state prints and compares as expected. */
function definedOf<T extends object>(fields: T): T {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as T
}

function iso(ms: number): string {
  return new Date(ms).toISOString()
}
