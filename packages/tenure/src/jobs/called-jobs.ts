/** Jobs that are run by a call. The call runs the job immediately or not at all. */
import { isTenureError } from '../common/errors.ts'
import type { Leadership } from '../engine/leadership.ts'
import type { LeaseRecord } from '../engine/lease-store.ts'
import { leadWith, type LeadPlan } from '../api/lead-with.ts'
import { JobLog, type RunReport } from './job-log.ts'
import type { JobEventBody } from './events.ts'
import { jobStateOf, type JobState, type JobRun } from './job-state.ts'
import { runAtMostOncePer, servedMsOf } from './rate-limited-job.ts'
import { perform, type JobWork, type RunLimits } from './run-work.ts'
import type { JobRuntime } from './job-runtime.ts'

/** The arguments of a call that runs a job. */
export interface JobCall {
  readonly name: string
  readonly work: JobWork
  readonly limits: RunLimits
  readonly signal: AbortSignal | undefined
}

/**
 * Runs a job until it has succeeded once, and then never again: its success is recorded after the work. If a process
 * saw its own work succeed but lost its lease before it could record that, it never runs the work again. It campaigns
 * only to record the success, and returns `ran` even if another process has run the work as well in the meantime.
 */
export async function once(runtime: JobRuntime, call: JobCall): Promise<'ran' | 'already-done'> {
  const { clock } = runtime
  let succeeded: JobRun | undefined
  const answerOf = (note: JobState | undefined) => {
    if (note?.doneMs === undefined) return undefined
    return succeeded ? ('ran' as const) : ('already-done' as const)
  }
  return lead<'ran' | 'already-done'>(runtime, call, { onLoss: 'campaign', answerOf }, async (leadership, tell) => {
    const book = new JobLog(leadership, clock, tell)
    const known = answerOf(book.note)
    if (known) return known
    if (succeeded) {
      const isNoted = await book.recordEnd(succeeded, { doneMs: succeeded.endedAt?.getTime() })
      if (!isNoted) leadership.throwIfLost()
      return 'ran'
    }
    const done = await book.run({
      scheduledMs: clock.wallMs(),
      perform: (run) => perform({ leadership, clock, run, tell, work: call.work, ...call.limits }),
      // `doneMs` is recorded only after success, so that the next process repeats a run that failed or whose process
      // died.
      headAfter: ({ result }) => (result === 'succeeded' ? { doneMs: clock.wallMs() } : {}),
    })
    if (done?.report.result === 'succeeded' || done?.report.hasSucceeded) succeeded = asSucceeded(done.run)
    throwUnlessSucceeded(leadership, done?.report)
    // Only this process knows about the success, and it no longer leads.
    if (!done?.isNoted) leadership.throwIfLost()
    return 'ran'
  })
}

function asSucceeded(run: JobRun): JobRun {
  return { ...run, result: 'succeeded', error: undefined }
}

/** Runs a job unless the fleet has recently started it. */
export async function atMostOncePer(
  runtime: JobRuntime,
  call: JobCall,
  intervalMs: number,
): Promise<'ran' | 'skipped'> {
  const { clock } = runtime
  const calledMs = clock.monotonicMs()
  const calledAgoMs = () => clock.monotonicMs() - calledMs
  const answerOf = (note: JobState | undefined) => {
    const servedMs = note && servedMsOf(note, intervalMs, clock.wallMs() - calledAgoMs())
    return servedMs === undefined ? undefined : ('skipped' as const)
  }
  return lead<'ran' | 'skipped'>(
    runtime,
    call,
    { onLoss: 'throw', until: 'unanswered', answerOf },
    async (leadership, tell) => {
      const outcome = await runAtMostOncePer(leadership, {
        intervalMs,
        clock,
        calledAgoMs,
        tell,
        perform: (run) => perform({ leadership, clock, run, tell, work: call.work, ...call.limits }),
      })
      if ('servedMs' in outcome) return 'skipped'
      throwUnlessSucceeded(leadership, outcome.report)
      return 'ran'
    },
  )
}

/** Runs a job unless another process is running it. */
export async function tryRun(runtime: JobRuntime, call: JobCall): Promise<'ran' | 'busy'> {
  const { clock } = runtime
  let hasBegun = false
  try {
    return await lead<'ran' | 'busy'>(runtime, call, { onLoss: 'throw', until: 'busy' }, async (leadership, tell) => {
      hasBegun = true
      const done = await new JobLog(leadership, clock, tell).run({
        scheduledMs: clock.wallMs(),
        perform: (run) => perform({ leadership, clock, run, tell, work: call.work, ...call.limits }),
      })
      throwUnlessSucceeded(leadership, done?.report)
      return 'ran'
    })
  } catch (error) {
    // The work may throw an error with the same code because something else is busy.
    if (!hasBegun && isTenureError(error) && error.code === 'BUSY') return 'busy'
    throw error
  }
}

interface CallCourse<T> extends Pick<LeadPlan<T>, 'onLoss' | 'until'> {
  /** Returns a result if the job state shows that a run is unnecessary. */
  readonly answerOf?: (note: JobState | undefined) => T | undefined
}

async function lead<T>(
  runtime: JobRuntime,
  { name, signal }: JobCall,
  { answerOf, ...course }: CallCourse<T>,
  work: (leadership: Leadership, tell: (happening: JobEventBody) => void) => Promise<T>,
): Promise<T> {
  runtime.throwIfClosed()
  signal?.throwIfAborted()
  if (answerOf) {
    // Read before campaigning, because a read writes nothing and most calls in a large fleet have nothing to do. If the
    // read fails, the campaign asks the store again.
    const known = answerOf(await runtime.read(name, signal).then(noteIn, () => undefined))
    signal?.throwIfAborted()
    if (known !== undefined) return known
  }
  // The caller gets the outcome of a run, unless leadership was lost during the run and the campaign continues.
  const isAwaited = (happening: JobEventBody) =>
    course.onLoss === 'throw' || happening.type !== 'ended' || happening.run.result !== 'lost'
  return runtime.withElector(name, (elector) =>
    leadWith<T>(
      elector,
      { ...course, signal, trustsWork: true, answerOf: answerOf && ((record) => answerOf(noteIn(record))) },
      (leadership) => work(leadership, (happening) => runtime.reporter.tell(name, happening, isAwaited(happening))),
    ),
  )
}

function noteIn(record: LeaseRecord | undefined): JobState | undefined {
  return record && jobStateOf(record.checkpoint)
}

/** Throws the work's error, or the reason why it was too late to start the work. */
function throwUnlessSucceeded(leadership: Leadership, report: RunReport | undefined): void {
  if (report?.result === 'succeeded') return
  if (report) throw report.error
  leadership.throwIfLost()
}
