import { pause } from '@tenure/internal/pause'
import type { Clock } from '../common/clock.ts'
import { answerByClock } from '../engine/clock-signal.ts'
import { isVoluntaryEnd, LeadershipLostError, TenureError } from '../common/errors.ts'
import type { Leadership } from '../engine/leadership.ts'
import type { RunReport } from './job-log.ts'
import type { JobEventBody } from './events.ts'
import type { JobResult, JobRun } from './job-state.ts'

/**
 * The argument of a job's work.
 *
 * @example
 * const report: JobWork = async ({ scheduledAt, term, signal }) => {
 *   await fetch(`https://reports.example.com?day=${scheduledAt.toISOString()}&fence=${term}`, { signal })
 * }
 */
export interface JobContext {
  readonly name: string
  /** The scheduled time of this run. Without a schedule, the time when it started. */
  readonly scheduledAt: Date
  /** The fencing token. Pass it to every resource that this run writes to. */
  readonly term: number
  /**
   * Aborts when the lease is lost, `maxRuntimeMs` has passed, or the jobs are closed. Work that stops early because of
   * it must throw: work that returns counts as succeeded.
   */
  readonly signal: AbortSignal
  /** The number of this try: 1, or more if a failed run is retried. */
  readonly tries: number
  /** Whether this run still holds its lease, according to the clock. */
  isLeader(): boolean
}

/** The work of a job. Its result is returned by the call that ran it, or ignored. */
export type JobWork<T = unknown> = (context: JobContext) => Promise<T> | T

/** How long a run may take, and how many times it is retried. */
export interface RunLimits {
  readonly maxRuntimeMs: number | undefined
  readonly retries: number
  readonly retryDelayMs: number
}

/** One run of a job's work. */
export interface RunRequest<T> extends RunLimits {
  readonly leadership: Leadership
  readonly clock: Clock
  readonly run: JobRun
  /** No further try starts at or after this wall-clock time. */
  readonly untilMs?: number | undefined
  readonly work: JobWork<T>
  tell(happening: JobEventBody): void
}

/** The outcome and the result of the work. */
export interface WorkReport<T> extends RunReport {
  readonly value?: T | undefined
  /**
   * True if the work returned, and never read its signal after the lease was lost, so it did not stop early. The lease
   * was lost before the success could be recorded.
   */
  readonly hasSucceeded?: boolean | undefined
}

const longestRetryMs = 60_000

/** Calls the work, and retries it if it fails: one try at a time, all in this leadership. */
export async function perform<T>(request: RunRequest<T>): Promise<WorkReport<T>> {
  const { leadership, clock, run, work, maxRuntimeMs, retries } = request
  const controller = new AbortController()
  const { signal } = controller
  let hasTimedOut = false
  const timer =
    maxRuntimeMs === undefined
      ? undefined
      : clock.setTimer(maxRuntimeMs, () => {
          hasTimedOut = true
          request.tell({ type: 'timed-out', run })
          controller.abort(tooLong(leadership.election, maxRuntimeMs))
        })
  const end = () => {
    // Work that ignores its signal must not keep the process from exiting.
    timer?.cancel()
    controller.abort(leadership.signal.reason)
  }
  if (leadership.signal.aborted) end()
  else leadership.signal.addEventListener('abort', end, { once: true })
  let hasSeenEnd = false
  // If leadership has ended according to the clock, this check aborts it, and `end` is called before the signal
  // answers.
  answerByClock(signal, () => {
    if (!leadership.isLeader()) hasSeenEnd = true
  })
  const name = leadership.election
  const { term } = leadership
  const isLeader = () => leadership.isLeader()
  try {
    for (let tries = 1; ; tries += 1) {
      const context = { name, scheduledAt: run.scheduledAt, term, signal, tries, isLeader }
      const settled = await settle(async () => work(context))
      // Check the clock as well, because a process that was paused notices the loss of its leadership here first.
      const isOver = () => signal.aborted || !leadership.isLeader()
      const loss = lossOf(leadership)
      const hasReturned = 'value' in settled && !hasTimedOut
      if (hasReturned && !loss) return { result: 'succeeded', value: settled.value, tries }
      const hasSucceeded = hasReturned && !hasSeenEnd
      const error = 'error' in settled ? settled.error : (loss ?? signal.reason)
      if (isOver()) return { result: endOf(leadership, hasTimedOut, error), error, tries, hasSucceeded }
      const isAgain = tries <= retries && (await waitToRetry(request, tries, error, signal))
      if (isOver()) return { result: endOf(leadership, hasTimedOut, signal.reason), error, tries }
      if (!isAgain) return { result: 'failed', error, tries }
    }
  } finally {
    timer?.cancel()
    leadership.signal.removeEventListener('abort', end)
  }
}

/** Waits before a retry. Returns false without waiting if there is no time for another try. */
async function waitToRetry<T>(
  { clock, run, untilMs, retryDelayMs, tell }: RunRequest<T>,
  tries: number,
  error: unknown,
  signal: AbortSignal,
): Promise<boolean> {
  const delayMs = Math.min(longestRetryMs, retryDelayMs * 2 ** (tries - 1)) * (0.75 + clock.random() / 2)
  if (untilMs !== undefined && clock.wallMs() + delayMs >= untilMs) return false
  tell({ type: 'retrying', run, error, delayMs })
  await pause(clock, delayMs, signal)
  return true
}

/** The result of a run whose signal was aborted, or whose lease expired before a timer could report it. */
function endOf(leadership: Leadership, hasTimedOut: boolean, error: unknown): JobResult {
  if (lossOf(leadership)) return 'lost'
  if (hasTimedOut) return 'timed-out'
  const isAbort = error === leadership.signal.reason || (error instanceof Error && error.name === 'AbortError')
  return isAbort ? 'stopped' : 'failed'
}

/**
 * Why another process may be running the job by now. Undefined while leading, and after the elector ended the
 * leadership itself, as long as the lease is still renewed.
 */
function lossOf(leadership: Leadership): unknown {
  if (isRequestedEnd(leadership.signal)) return undefined
  try {
    leadership.throwIfLost()
    return undefined
  } catch (error) {
    return error
  }
}

/** Whether the elector ended the leadership itself, as by stop() or stepDown(), and did not lose it. */
export function isRequestedEnd({ reason }: { readonly reason?: unknown }): boolean {
  return reason instanceof LeadershipLostError && isVoluntaryEnd(reason.reason)
}

function tooLong(job: string, maxRuntimeMs: number): TenureError {
  return new TenureError('MAX_RUNTIME', `A run of "${job}" took longer than maxRuntimeMs (${maxRuntimeMs} ms).`)
}

async function settle<T>(work: () => Promise<T>): Promise<{ readonly value: T } | { readonly error: unknown }> {
  try {
    return { value: await work() }
  } catch (error) {
    return { error }
  }
}
