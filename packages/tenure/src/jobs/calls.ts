/** Jobs that are run by a call, now or never. */
import { isTenureError } from '../errors.ts'
import type { Leadership } from '../leadership.ts'
import type { LeaseRecord } from '../lease-store.ts'
import { leadWith, type Course } from '../styles/lead-with.ts'
import { Book, type RunReport } from './book.ts'
import type { JobHappening } from './events.ts'
import { noteOf, type JobNote, type JobRun } from './note.ts'
import { runAtMostOncePer, servedMsOf } from './once-per.ts'
import { perform, type JobWork, type RunLimits } from './perform.ts'
import type { Workshop } from './workshop.ts'

/** A job that was called. */
export interface Call {
  readonly name: string
  readonly work: JobWork
  readonly limits: RunLimits
  readonly signal: AbortSignal | undefined
}

/**
 * Once for ever: success is recorded after the work. A process that saw its own work succeed and lost its lease before
 * that was recorded never runs the work again. It campaigns only to record the success, and answers `ran` even if
 * another process has run the work as well by then.
 */
export async function once(workshop: Workshop, call: Call): Promise<'ran' | 'already-done'> {
  const { clock } = workshop
  let succeeded: JobRun | undefined
  const answerOf = (note: JobNote | undefined) => {
    if (note?.doneMs === undefined) return undefined
    return succeeded ? ('ran' as const) : ('already-done' as const)
  }
  return lead<'ran' | 'already-done'>(workshop, call, { onLoss: 'campaign', answerOf }, async (leadership, tell) => {
    const book = new Book(leadership, clock, tell)
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
      // After the success: a run that fails, or whose process dies, is for the next one to do again.
      headAfter: ({ result }) => (result === 'succeeded' ? { doneMs: clock.wallMs() } : {}),
    })
    if (done?.report.result === 'succeeded' || done?.report.hasSucceeded) succeeded = asSucceeded(done.run)
    throwUnlessSucceeded(leadership, done?.report)
    // Only this process knows of the success, and it no longer leads.
    if (!done?.isNoted) leadership.throwIfLost()
    return 'ran'
  })
}

function asSucceeded(run: JobRun): JobRun {
  return { ...run, result: 'succeeded', error: undefined }
}

/** Unless the fleet has begun to lately. */
export async function atMostOncePer(workshop: Workshop, call: Call, intervalMs: number): Promise<'ran' | 'skipped'> {
  const { clock } = workshop
  const calledMs = clock.monotonicMs()
  const calledAgoMs = () => clock.monotonicMs() - calledMs
  const answerOf = (note: JobNote | undefined) => {
    const servedMs = note && servedMsOf(note, intervalMs, clock.wallMs() - calledAgoMs())
    return servedMs === undefined ? undefined : ('skipped' as const)
  }
  return lead<'ran' | 'skipped'>(
    workshop,
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

/** Unless somebody else is at it. */
export async function tryRun(workshop: Workshop, call: Call): Promise<'ran' | 'busy'> {
  const { clock } = workshop
  let hasBegun = false
  try {
    return await lead<'ran' | 'busy'>(workshop, call, { onLoss: 'throw', until: 'busy' }, async (leadership, tell) => {
      hasBegun = true
      const done = await new Book(leadership, clock, tell).run({
        scheduledMs: clock.wallMs(),
        perform: (run) => perform({ leadership, clock, run, tell, work: call.work, ...call.limits }),
      })
      throwUnlessSucceeded(leadership, done?.report)
      return 'ran'
    })
  } catch (error) {
    // Work may throw the same, for something else that is busy.
    if (!hasBegun && isTenureError(error) && error.code === 'BUSY') return 'busy'
    throw error
  }
}

interface CallCourse<T> extends Pick<Course<T>, 'onLoss' | 'until'> {
  /** What a note says in place of running. */
  readonly answerOf?: (note: JobNote | undefined) => T | undefined
}

async function lead<T>(
  workshop: Workshop,
  { name, signal }: Call,
  { answerOf, ...course }: CallCourse<T>,
  work: (leadership: Leadership, tell: (happening: JobHappening) => void) => Promise<T>,
): Promise<T> {
  workshop.throwIfClosed()
  signal?.throwIfAborted()
  if (answerOf) {
    // One look writes nothing: most calls of a large fleet have nothing to do. A store that fails is asked again.
    const known = answerOf(await workshop.read(name, signal).then(noteIn, () => undefined))
    signal?.throwIfAborted()
    if (known !== undefined) return known
  }
  // The caller gets the outcome of a run, unless the run was lost and the campaign goes on.
  const isAwaited = (happening: JobHappening) =>
    course.onLoss === 'throw' || happening.type !== 'ended' || happening.run.result !== 'lost'
  return workshop.withElector(name, (elector) =>
    leadWith<T>(
      elector,
      { ...course, signal, trustsWork: true, answerOf: answerOf && ((record) => answerOf(noteIn(record))) },
      (leadership) => work(leadership, (happening) => workshop.reporter.tell(name, happening, isAwaited(happening))),
    ),
  )
}

function noteIn(record: LeaseRecord | undefined): JobNote | undefined {
  return record && noteOf(record.carry)
}

/** The caller gets what the work threw, or why it was too late to begin. */
function throwUnlessSucceeded(leadership: Leadership, report: RunReport | undefined): void {
  if (report?.result === 'succeeded') return
  if (report) throw report.error
  leadership.throwIfLost()
}
