/**
 * Reads the state of a job from a checkpoint, if a job has written it. The text is untrusted: anybody may have written
 * anything.
 */

export interface JobRun {
  readonly atMs: number
  readonly durationMs: number | undefined
  readonly by: string | undefined
  readonly term: number | undefined
  /** Undefined while the run is in progress. */
  readonly result: string | undefined
  readonly error: string | undefined
}

export interface JobState {
  readonly schedule: string | undefined
  readonly timezone: string | undefined
  readonly nextMs: number | undefined
  readonly lastMs: number | undefined
  /** When a one-time job was done. */
  readonly doneMs: number | undefined
  /** Newest first. */
  readonly runs: readonly JobRun[]
}

type Fields = Readonly<Record<string, unknown>>

export function jobIn(carry: string): JobState | undefined {
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

/** A candidate runs a due job within a lease or two. After this many leases, no candidate is left. */
const overdueLeases = 10

/**
 * Returns why it is normal that nobody leads an election, judged by the checkpoint of its last lease; undefined if that
 * is not known. The next time is by the clock of another machine, so this is only shown to people. Nothing is decided
 * by it.
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

/**
 * Returns how the newest run failed; undefined if it did not fail or is still in progress. `leaderTerm` is the term of
 * the current leader.
 */
export function failureOf({ runs: [last] }: JobState, leaderTerm: number | undefined): string | undefined {
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
