/** The job information that the page shows, and conclusions drawn from it. */
import { decodeJob, type DecodedJob } from '@tenure/internal/job-state'

export type ShownJob = DecodedJob

/** A checkpoint of at most 4 KiB may list many short runs. The page shows this many. */
const shownRuns = 20

export function jobIn(checkpoint: string): ShownJob | undefined {
  const job = decodeJob(checkpoint)
  return job && { ...job, runs: job.runs.slice(0, shownRuns) }
}

/** A candidate runs a due job within a lease or two. After this many leases, no candidate is left. */
const overdueLeases = 10

/**
 * Returns why it is normal that nobody leads an election, according to the checkpoint of its last lease. Undefined if
 * no reason is known. The next scheduled time comes from the clock of another machine, so the result is only for
 * display and no decision may depend on it.
 */
export function finishedIn(
  last: { readonly checkpoint: string; readonly ttlMs: number } | undefined,
  nowMs: number,
): 'done' | 'no longer scheduled' | undefined {
  const job = last && jobIn(last.checkpoint)
  if (!job) return undefined
  const { doneMs, schedule, nextRunMs } = job
  if (doneMs !== undefined) return 'done'
  if (schedule === undefined || nextRunMs === undefined) return undefined
  return nowMs - nextRunMs > overdueLeases * last.ttlMs ? 'no longer scheduled' : undefined
}

/**
 * Returns how the newest run failed. Undefined if it did not fail or is still in progress. `leaderTerm` is the term of
 * the current leader.
 */
export function failureOf({ runs: [last] }: ShownJob, leaderTerm: number | undefined): string | undefined {
  if (!last) return undefined
  const result = last.result ?? (last.term === leaderTerm ? undefined : 'lost')
  return result === 'failed' || result === 'timed-out' || result === 'lost' ? result : undefined
}
