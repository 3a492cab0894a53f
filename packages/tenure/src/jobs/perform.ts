import { pause } from '@tenure/internal/pause'
import type { Clock } from '../clock.ts'
import { answerByClock } from '../clocked-signal.ts'
import { LeadershipLostError, TenureError } from '../errors.ts'
import type { Leadership } from '../leadership.ts'
import type { RunReport } from './book.ts'
import type { JobHappening } from './events.ts'
import type { JobResult, JobRun } from './note.ts'

/**
 * What a job's work is called with.
 *
 * @example
 * const report: JobWork = async ({ scheduledAt, term, signal }) => {
 *   await fetch(`https://reports.example.com?day=${scheduledAt.toISOString()}&fence=${term}`, { signal })
 * }
 */
export interface JobContext {
  readonly name: string
  /** The time of the schedule that this run is for; without a schedule, when it began. */
  readonly scheduledAt: Date
  /** The fencing token. Hand it to whatever this run writes to. */
  readonly term: number
  /**
   * Aborts when the lease is lost, `maxRuntimeMs` has passed, or the jobs are closed. Work that stops early for that must
   * throw: work that returns has succeeded.
   */
  readonly signal: AbortSignal
  /** 1, and more where a failed run is tried again. */
  readonly tries: number
  /** Whether this run still has its lease, by the clock. */
  isLeader(): boolean
}

/** The work of a job. What it returns is not used, or handed back by the call that ran it. */
export type JobWork<T = unknown> = (context: JobContext) => Promise<T> | T

/** How long a run may take, and how often it is tried. */
export interface RunLimits {
  readonly maxRuntimeMs: number | undefined
  readonly retries: number
  readonly retryDelayMs: number
}

/** A run of a job's work. */
export interface Performance<T> extends RunLimits {
  readonly leadership: Leadership
  readonly clock: Clock
  readonly run: JobRun
  /** No other try begins at or after this time of the wall clock. */
  readonly untilMs?: number | undefined
  readonly work: JobWork<T>
  tell(happening: JobHappening): void
}

/** How the work went, and what it gave. */
export interface WorkReport<T> extends RunReport {
  readonly value?: T | undefined
  /**
   * The work returned without ever asking its signal after the lease was lost, so it did not stop early. The loss came
   * before the success could be recorded.
   */
  readonly hasSucceeded?: boolean | undefined
}

const longestRetryMs = 60_000

/** Calls the work, again if it fails and is to be tried again: always one after the other, in this one leadership. */
export async function perform<T>(performance: Performance<T>): Promise<WorkReport<T>> {
  const { leadership, clock, run, work, maxRuntimeMs, retries } = performance
  const controller = new AbortController()
  const { signal } = controller
  let hasTimedOut = false
  const timer =
    maxRuntimeMs === undefined
      ? undefined
      : clock.setTimer(maxRuntimeMs, () => {
          hasTimedOut = true
          performance.tell({ type: 'timed-out', run })
          controller.abort(tooLong(leadership.election, maxRuntimeMs))
        })
  const end = () => {
    // Work that does not heed its signal must not keep the process from ending.
    timer?.cancel()
    controller.abort(leadership.signal.reason)
  }
  if (leadership.signal.aborted) end()
  else leadership.signal.addEventListener('abort', end, { once: true })
  let hasSeenEnd = false
  // A leadership that is over by the clock aborts, and so calls `end`, before this signal answers.
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
      // By the clock: a process that was kept from running learns of its loss here.
      const isOver = () => signal.aborted || !leadership.isLeader()
      const loss = lossOf(leadership)
      const hasReturned = 'value' in settled && !hasTimedOut
      if (hasReturned && !loss) return { result: 'succeeded', value: settled.value, tries }
      const hasSucceeded = hasReturned && !hasSeenEnd
      const error = 'error' in settled ? settled.error : (loss ?? signal.reason)
      if (isOver()) return { result: endOf(leadership, hasTimedOut, error), error, tries, hasSucceeded }
      const isAgain = tries <= retries && (await waitToRetry(performance, tries, error, signal))
      if (isOver()) return { result: endOf(leadership, hasTimedOut, signal.reason), error, tries }
      if (!isAgain) return { result: 'failed', error, tries }
    }
  } finally {
    timer?.cancel()
    leadership.signal.removeEventListener('abort', end)
  }
}

/** Gives whether there is time for another try, after the pause before it. */
async function waitToRetry<T>(
  { clock, run, untilMs, retryDelayMs, tell }: Performance<T>,
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

/** What ended a run whose signal has aborted, or whose lease ran out before a timer could say so. */
function endOf(leadership: Leadership, hasTimedOut: boolean, error: unknown): JobResult {
  if (lossOf(leadership)) return 'lost'
  if (hasTimedOut) return 'timed-out'
  const isAbort = error === leadership.signal.reason || (error instanceof Error && error.name === 'AbortError')
  return isAbort ? 'stopped' : 'failed'
}

/** Why others may be at it by now; nothing while it leads, or if it was asked to stop and its lease is renewed. */
function lossOf(leadership: Leadership): unknown {
  if (isAskedToEnd(leadership.signal)) return undefined
  try {
    leadership.throwIfLost()
    return undefined
  } catch (error) {
    return error
  }
}

/** Whether a leadership ended because it was asked to. */
export function isAskedToEnd({ reason }: { readonly reason?: unknown }): boolean {
  return reason instanceof LeadershipLostError && (reason.reason === 'stopped' || reason.reason === 'released')
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
