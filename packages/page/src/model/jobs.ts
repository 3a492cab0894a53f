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

/** A candidate runs what is due within a lease or two. After this many leases there is none. */
const overdueLeases = 10

/**
 * Why it is in order that nobody leads an election, by what its last lease carries; undefined if it is not known to be.
 * The next time is by the clock of another machine: this is shown to people, and nothing is decided by it.
 */
export function finishedIn(
  last: { readonly carry: string; readonly ttlMs: number } | undefined,
  nowMs: number,
): 'done' | 'no longer scheduled' | undefined {
  const job = last && jobIn(last.carry)
  if (!job) return undefined
  const { doneMs, schedule, nextMs } = job
  if (doneMs !== undefined) return 'done'
  if (schedule === undefined || nextMs === undefined) return undefined
  return nowMs - nextMs > overdueLeases * last.ttlMs ? 'no longer scheduled' : undefined
}

/** How the newest run went wrong; undefined if it did not, or goes on. `leaderTerm`: of the term that leads now. */
export function failureOf({ runs: [last] }: JobNote, leaderTerm: number | undefined): string | undefined {
  if (!last) return undefined
  const result = last.result ?? (last.term === leaderTerm ? undefined : 'lost')
  return result === 'failed' || result === 'timed-out' || result === 'lost' ? result : undefined
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
