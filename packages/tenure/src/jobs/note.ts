/**
 * What a job's record carries from leader to leader, as JSON. The command has written `{"lastRun":"…"}` from its first
 * version on, and reads nothing else: what was added since stands beside it, so that both read what the other wrote.
 */
import { isObject } from '@tenure/internal/objects'
import { TenureError } from '../errors.ts'
import { carryLimitBytes } from '../options.ts'

/** How a run ended. `lost`: its process died or lost the lease, so nobody knows how far it got. */
export type JobResult = 'succeeded' | 'failed' | 'timed-out' | 'stopped' | 'lost' | 'missed'

/**
 * One run of a job, as its record tells. Times are by the clock of the process that ran it.
 *
 * @example
 * const [newest] = status.runs
 * if (newest?.result === 'failed') console.log(newest.scheduledAt, newest.by, newest.error)
 */
export interface JobRun {
  readonly scheduledAt: Date
  /** Missing for a time that was left out. */
  readonly begunAt?: Date | undefined
  readonly endedAt?: Date | undefined
  readonly durationMs?: number | undefined
  /** The identity of the process. */
  readonly by?: string | undefined
  readonly term?: number | undefined
  /** How often it was tried, if more than once. */
  readonly tries?: number | undefined
  /** Missing while it goes on. */
  readonly result?: JobResult | undefined
  /** What it failed with. */
  readonly error?: string | undefined
}

/** A job's note. */
export interface JobNote {
  /** The newest time that was run or is being run. No time at or before it is ever run again. */
  readonly lastRunMs?: number | undefined
  /** For people: the time after that. */
  readonly nextRunMs?: number | undefined
  /** For people: when it is due. */
  readonly schedule?: string | undefined
  readonly timezone?: string | undefined
  /** When a job that runs once for ever succeeded. */
  readonly doneMs?: number | undefined
  /** The newest first. */
  readonly runs: readonly JobRun[]
}

/** Of more, the oldest are forgotten. */
export const mostRuns = 10
const longestError = 300
const longestSchedule = 200
/** Times after it cannot be counted on from, and no clock shows them. */
const newestMs = Date.UTC(9999, 0)
const results: readonly string[] = ['succeeded', 'failed', 'timed-out', 'stopped', 'lost', 'missed']

/** Reads a carry. An empty one is a job that was never run. Refuses what another program has written. */
export function readNote(job: string, carry: string): JobNote {
  const note = noteOf(carry)
  if (note) return note
  throw new TenureError(
    'RECORD_INVALID',
    `The record of "${job}" carries something that is not the time of a run: another program uses this election. ` +
      'Choose another name for the job.',
  )
}

/** What a carry says, if a job has written it. */
export function noteOf(carry: string): JobNote | undefined {
  if (carry === '') return { runs: [] }
  let fields: unknown
  try {
    fields = JSON.parse(carry)
  } catch {
    return undefined
  }
  if (!isObject(fields)) return undefined
  const lastRunMs = momentOf(fields, 'lastRun')
  const doneMs = momentOf(fields, 'done')
  const runs: unknown = Reflect.get(fields, 'runs')
  // A last run that cannot be read must not be taken for none: its time would be run again.
  const isBroken = 'lastRun' in fields && lastRunMs === undefined
  if (isBroken || (lastRunMs === undefined && doneMs === undefined && !Array.isArray(runs))) return undefined
  return definedOf({
    lastRunMs,
    nextRunMs: momentOf(fields, 'nextRun'),
    schedule: textOf(fields, 'schedule'),
    timezone: textOf(fields, 'timezone'),
    doneMs,
    runs: Array.isArray(runs) ? runs.flatMap((run: unknown) => runOf(run) ?? []) : [],
  })
}

function runOf(fields: unknown): JobRun | undefined {
  if (!isObject(fields)) return undefined
  const atMs = momentOf(fields, 'at')
  if (atMs === undefined) return undefined
  const result = textOf(fields, 'result')
  return definedOf({
    scheduledAt: new Date(atMs),
    begunAt: dateOf(fields, 'begun'),
    endedAt: dateOf(fields, 'ended'),
    durationMs: numberOf(fields, 'ms'),
    by: textOf(fields, 'by'),
    term: numberOf(fields, 'term'),
    tries: numberOf(fields, 'tries'),
    result: results.includes(result ?? '') ? (result as JobResult) : undefined,
    error: textOf(fields, 'error'),
  })
}

/** The note as a carry: as many of the newest runs as there is room for. */
export function writeNote(note: JobNote): string {
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
    return Buffer.byteLength(text) <= carryLimitBytes ? text : undefined
  }
  for (let count = mostRuns; count > 0; count -= 1) {
    const text = fitting(note.runs.slice(0, count).map((run) => fieldsOf(run)))
    if (text !== undefined) return text
  }
  // Only characters of many bytes make a single run too long.
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

/** Runs without an end that are not of this term have no runner any more: it died, or lost its lease. */
export function withLostRuns(note: JobNote, term: number | undefined): JobNote {
  const runs = note.runs.map((run) =>
    run.result === undefined && run.term !== term ? { ...run, result: 'lost' as const } : run,
  )
  return { ...note, runs }
}

function cut(text: string, most: number): string {
  return text.length > most ? `${text.slice(0, most).toWellFormed()}…` : text.toWellFormed()
}

function momentOf(fields: object, name: string): number | undefined {
  const text = textOf(fields, name)
  const ms = text === undefined ? NaN : Date.parse(text)
  return ms <= newestMs ? ms : undefined
}

function dateOf(fields: object, name: string): Date | undefined {
  const ms = momentOf(fields, name)
  return ms === undefined ? undefined : new Date(ms)
}

function textOf(fields: object, name: string): string | undefined {
  const value: unknown = Reflect.get(fields, name)
  return typeof value === 'string' ? value : undefined
}

function numberOf(fields: object, name: string): number | undefined {
  const value: unknown = Reflect.get(fields, name)
  return typeof value === 'number' && Number.isFinite(value) && value >= 0 ? value : undefined
}

/** Without what is missing, so that a note is printed and compared as it is. */
function definedOf<T extends object>(fields: T): T {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as T
}

function iso(ms: number): string {
  return new Date(ms).toISOString()
}
