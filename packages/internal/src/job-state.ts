/**
 * Decodes the state of a job, which each leader leaves to its successors in the checkpoint of the job's record, as JSON.
 * The text is untrusted: another program may use the same election. The library and the page read it here, so this
 * module must run in a browser.
 */
import { isObject } from './objects.ts'

/** One run. Times are Unix milliseconds, from the clock of the process that ran it. */
export interface DecodedRun {
  readonly atMs: number
  readonly begunMs: number | undefined
  readonly endedMs: number | undefined
  readonly durationMs: number | undefined
  readonly by: string | undefined
  readonly term: number | undefined
  readonly tries: number | undefined
  /** Undefined while the run is in progress. A newer version may write results that this version does not know. */
  readonly result: string | undefined
  readonly error: string | undefined
}

/** The state of a job. */
export interface DecodedJob {
  /** The newest time that has been run or is being run. No time at or before it is ever run again. */
  readonly lastRunMs: number | undefined
  readonly nextRunMs: number | undefined
  readonly schedule: string | undefined
  readonly timezone: string | undefined
  /** When a one-time job was done. */
  readonly doneMs: number | undefined
  /** Newest first. */
  readonly runs: readonly DecodedRun[]
}

/** Later times are rejected, because no real clock shows them and no next run can be computed from them. */
const newestMs = Date.UTC(9999, 0)

/** Undefined if the checkpoint is empty or was not written by a job. */
export function decodeJob(checkpoint: string): DecodedJob | undefined {
  let fields: unknown
  try {
    fields = JSON.parse(checkpoint)
  } catch {
    return undefined
  }
  if (!isObject(fields)) return undefined
  const { runs } = fields
  const lastRunMs = momentOf(fields['lastRun'])
  const doneMs = momentOf(fields['done'])
  // An unreadable last run must not count as none. Otherwise its time would be run again.
  const isBroken = 'lastRun' in fields && lastRunMs === undefined
  if (isBroken || (lastRunMs === undefined && doneMs === undefined && !Array.isArray(runs))) return undefined
  return {
    lastRunMs,
    nextRunMs: momentOf(fields['nextRun']),
    schedule: textOf(fields['schedule']),
    timezone: textOf(fields['timezone']),
    doneMs,
    runs: Array.isArray(runs) ? runs.flatMap((run: unknown) => decodeRun(run) ?? []) : [],
  }
}

function decodeRun(fields: unknown): DecodedRun | undefined {
  if (!isObject(fields)) return undefined
  const atMs = momentOf(fields['at'])
  if (atMs === undefined) return undefined
  return {
    atMs,
    begunMs: momentOf(fields['begun']),
    endedMs: momentOf(fields['ended']),
    durationMs: numberOf(fields['ms']),
    by: textOf(fields['by']),
    term: numberOf(fields['term']),
    tries: numberOf(fields['tries']),
    result: textOf(fields['result']),
    error: textOf(fields['error']),
  }
}

function momentOf(value: unknown): number | undefined {
  const ms = typeof value === 'string' ? Date.parse(value) : Number.NaN
  return ms <= newestMs ? ms : undefined
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined
}

function numberOf(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0 ? value : undefined
}
