import { callSafely } from '@tenure/internal/call-safely'
import type { Observer } from '../engine/events.ts'
import type { JobRun } from './job-state.ts'

/** An event of a job in this process. */
export type JobEventBody =
  /** This process will run the job next, at that time. */
  | { readonly type: 'scheduled'; readonly scheduledAt: Date }
  | { readonly type: 'begun'; readonly run: JobRun }
  /** The run failed and will be retried. */
  | { readonly type: 'retrying'; readonly run: JobRun; readonly error: unknown; readonly delayMs: number }
  /** The run took longer than `maxRuntimeMs`, and its signal was aborted. */
  | { readonly type: 'timed-out'; readonly run: JobRun }
  /** A run is due while the previous one is still running. */
  | { readonly type: 'still-running'; readonly run: JobRun; readonly scheduledAt: Date }
  /** `error` is the value that the work threw. The run has its message. */
  | { readonly type: 'ended'; readonly run: JobRun; readonly error?: unknown }
  /** No process could start the run in time, so it is skipped. */
  | { readonly type: 'missed'; readonly scheduledAt: Date }
  | { readonly type: 'error'; readonly error: unknown }

/**
 * Wraps a listener and drops its errors. An error must not end a run, and must not end the process if a timer calls the
 * listener.
 */
export function safeListener(tell: (happening: JobEventBody) => void): (happening: JobEventBody) => void {
  return (happening) =>
    callSafely(
      () => tell(happening),
      () => undefined,
    )
}

/**
 * An event of a job, with the job and the process.
 *
 * @example
 * const onJob = (event: JobEvent) => {
 *   if (event.type === 'ended') console.log(event.job, event.run.result, event.run.durationMs)
 * }
 */
export type JobEvent = { readonly job: string; readonly identity: string } & JobEventBody

/**
 * An observer of elections that also receives job events. It is called synchronously and never awaited. Errors that it
 * throws are caught and logged.
 *
 * @example
 * const observer: JobObserver = { onJob: (event) => logger.info(event) }
 */
export interface JobObserver extends Observer {
  readonly onJob?: ((event: JobEvent) => void) | undefined
}
