/** What a carry says of a job, if a job has written it. Anybody may have written anything. */

export interface JobRun {
  readonly atMs: number
  readonly durationMs: number | undefined
  readonly by: string | undefined
  readonly term: number | undefined
  /** Undefined while it goes on. */
  readonly result: string | undefined
  readonly error: string | undefined
}

export interface JobNote {
  readonly schedule: string | undefined
  readonly timezone: string | undefined
  readonly nextMs: number | undefined
  readonly lastMs: number | undefined
  /** Of one that runs once for ever. */
  readonly doneMs: number | undefined
  /** The newest first. */
  readonly runs: readonly JobRun[]
}

type Fields = Readonly<Record<string, unknown>>

export function jobIn(carry: string): JobNote | undefined {
  let fields: unknown
  try {
    fields = JSON.parse(carry)
  } catch {
    return undefined
  }
  if (!isFields(fields)) return undefined
  const { runs } = fields
  const lastMs = momentOf(fields['lastRun'])
  const doneMs = momentOf(fields['done'])
  if (lastMs === undefined && doneMs === undefined && !Array.isArray(runs)) return undefined
  return {
    schedule: textOf(fields['schedule']),
    timezone: textOf(fields['timezone']),
    nextMs: momentOf(fields['nextRun']),
    lastMs,
    doneMs,
    runs: Array.isArray(runs) ? runs.flatMap((run: unknown) => runOf(run) ?? []).slice(0, 20) : [],
  }
}

function runOf(fields: unknown): JobRun | undefined {
  if (!isFields(fields)) return undefined
  const atMs = momentOf(fields['at'])
  if (atMs === undefined) return undefined
  return {
    atMs,
    durationMs: numberOf(fields['ms']),
    by: textOf(fields['by']),
    term: numberOf(fields['term']),
    result: textOf(fields['result']),
    error: textOf(fields['error']),
  }
}

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function momentOf(value: unknown): number | undefined {
  const ms = typeof value === 'string' ? Date.parse(value) : NaN
  return Number.isFinite(ms) ? ms : undefined
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined
}

function numberOf(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0 ? value : undefined
}
