import { contain } from '@tenure/internal/contain'
import type { Observer } from '../events.ts'
import type { JobRun } from './note.ts'

/** What happens to a job here. */
export type JobHappening =
  /** This process runs it next, at that time. */
  | { readonly type: 'scheduled'; readonly scheduledAt: Date }
  | { readonly type: 'begun'; readonly run: JobRun }
  /** It failed and is tried again. */
  | { readonly type: 'retrying'; readonly run: JobRun; readonly error: unknown; readonly delayMs: number }
  /** It took longer than `maxRuntimeMs`: its signal has aborted. */
  | { readonly type: 'timed-out'; readonly run: JobRun }
  /** A time has come while the run before it is still going. */
  | { readonly type: 'still-running'; readonly run: JobRun; readonly scheduledAt: Date }
  /** `error` is what the work threw; the run has its message. */
  | { readonly type: 'ended'; readonly run: JobRun; readonly error?: unknown }
  /** Nobody could begin the run in time, so it is left out. */
  | { readonly type: 'missed'; readonly scheduledAt: Date }
  | { readonly type: 'error'; readonly error: unknown }

/** A listener whose mistakes are dropped: they must not end a run, nor the process where a timer calls it. */
export function contained(tell: (happening: JobHappening) => void): (happening: JobHappening) => void {
  return (happening) =>
    contain(
      () => tell(happening),
      () => undefined,
    )
}

/**
 * What happens to a job, and where.
 *
 * @example
 * const onJob = (event: JobEvent) => {
 *   if (event.type === 'ended') console.log(event.job, event.run.result, event.run.durationMs)
 * }
 */
export type JobEvent = { readonly job: string; readonly identity: string } & JobHappening

/**
 * An observer of elections that also gets what happens to jobs. It is called at once, never awaited, and what it throws
 * is contained.
 *
 * @example
 * const observer: JobObserver = { onJob: (event) => logger.info(event) }
 */
export interface JobObserver extends Observer {
  readonly onJob?: ((event: JobEvent) => void) | undefined
}
