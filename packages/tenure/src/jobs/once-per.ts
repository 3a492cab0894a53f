import { systemClock, type Clock } from '../clock.ts'
import type { Leadership } from '../leadership.ts'
import { Book, type RunReport } from './book.ts'
import { contained, type JobHappening } from './events.ts'
import type { JobNote, JobRun } from './note.ts'

/** A job that is called more often than it is to run. */
export interface SparseJob<Report extends RunReport> {
  readonly intervalMs: number
  /** Default: the real one. */
  readonly clock?: Clock | undefined
  /** How long ago it was called. */
  calledAgoMs(): number
  perform(run: JobRun): Promise<Report | undefined>
  /** Hears of what happens. What it throws or rejects with is dropped. */
  tell(happening: JobHappening): void
}

/** What came of it: the run that served this call before it, or how this call's own went. */
export type Sparsely<Report> = { readonly servedMs: number } | { readonly report: Report | undefined }

/** The last run, if the fleet ran the job within the interval before a call. A run that is ahead of this clock counts. */
export function servedMsOf({ lastRunMs }: JobNote, intervalMs: number, calledMs: number): number | undefined {
  return lastRunMs !== undefined && calledMs - lastRunMs < intervalMs ? lastRunMs : undefined
}

/**
 * Runs a job unless the fleet has done so lately. A run counts from its beginning, even if it failed. For programs that
 * campaign by themselves, as the command `tenure run` does; `jobs.atMostOncePer` is the simpler way.
 *
 * @example
 * const outcome = await runAtMostOncePer(leadership, {
 *   intervalMs: 3_600_000,
 *   calledAgoMs: () => clock.monotonicMs() - calledMs,
 *   perform: async () => ({ result: (await job()) ? 'succeeded' : 'failed' }),
 *   tell: (happening) => console.log(happening.type),
 * })
 * if ('servedMs' in outcome) console.log('nothing to do')
 */
export async function runAtMostOncePer<Report extends RunReport>(
  leadership: Leadership,
  job: SparseJob<Report>,
): Promise<Sparsely<Report>> {
  const { clock = systemClock } = job
  const tell = contained((happening) => job.tell(happening))
  const book = new Book(leadership, clock, tell)
  const nowMs = clock.wallMs()
  // A call that waited while another process ran the job is served by that run.
  const servedMs = servedMsOf(book.note, job.intervalMs, nowMs - Math.max(0, job.calledAgoMs()))
  if (servedMs !== undefined) return { servedMs }
  const done = await book.run({ scheduledMs: nowMs, head: { lastRunMs: nowMs }, perform: (run) => job.perform(run) })
  return { report: done?.report }
}
