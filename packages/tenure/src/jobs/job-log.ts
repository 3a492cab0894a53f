import { messageOf } from '@tenure/internal/message'
import type { Clock } from '../common/clock.ts'
import type { Leadership } from '../engine/leadership.ts'
import type { JobEventBody } from './events.ts'
import {
  mostRuns,
  parseJobState,
  withLostRuns,
  formatJobState,
  type JobState,
  type JobResult,
  type JobRun,
} from './job-state.ts'

/** The outcome of a run. */
export interface RunReport {
  readonly result: JobResult
  readonly error?: unknown
  readonly tries?: number | undefined
}

/** A run to record and perform. */
export interface PlannedRun<Report extends RunReport> {
  readonly scheduledMs: number
  /** Other changes of the job state, recorded with the start of the run. */
  readonly head?: Partial<JobState> | undefined
  /** Performs the run. Resolves with undefined if it was too late to start. */
  perform(run: JobRun): Promise<Report | undefined>
  /** Other changes of the job state, recorded with the end of the run. */
  headAfter?(report: Report): Partial<JobState>
}

/** The result of a planned run. */
export interface RunOutcome<Report extends RunReport> {
  readonly report: Report
  readonly run: JobRun
  /** Whether the store has certainly recorded the end of the run. */
  readonly isNoted: boolean
}

/** The job log: the job state that the current leader reads and writes. */
export class JobLog {
  readonly #leadership: Leadership
  readonly #clock: Clock
  readonly #tell: (happening: JobEventBody) => void
  #note: JobState

  /** Throws if another program uses the record. */
  constructor(leadership: Leadership, clock: Clock, tell: (happening: JobEventBody) => void) {
    this.#leadership = leadership
    this.#clock = clock
    this.#tell = tell
    this.#note = withLostRuns(parseJobState(leadership.election, leadership.checkpoint), leadership.term)
  }

  get note(): JobState {
    return this.#note
  }

  /**
   * Records and reports a time that is skipped. It is reported only once, because the next leader reaches the same
   * conclusion.
   */
  async leaveOut(scheduledMs: number): Promise<void> {
    const { runs } = this.#note
    if (runs.some(({ result, scheduledAt }) => result === 'missed' && scheduledAt.getTime() === scheduledMs)) return
    const scheduledAt = new Date(scheduledMs)
    this.#tell({ type: 'missed', scheduledAt })
    await this.write({ runs: [{ scheduledAt, result: 'missed' }, ...runs] })
  }

  /** Writes the job state. Returns whether the store has certainly recorded it. */
  async write(change: Partial<JobState>): Promise<boolean> {
    const note = { ...this.#note, ...change }
    try {
      await this.#leadership.setCheckpoint(formatJobState(note))
      this.#keep(note)
      return true
    } catch (error) {
      // A process that was paused notices the loss of its leadership here, and only later by the signal.
      if (!this.#leadership.isLeader()) return false
      throw error
    }
  }

  /** Records a run, performs it, and records its end. Returns undefined if it was too late to start. */
  async run<Report extends RunReport>(planned: PlannedRun<Report>): Promise<RunOutcome<Report> | undefined> {
    const { identity, term } = this.#leadership
    const scheduledAt = new Date(planned.scheduledMs)
    const run: JobRun = { scheduledAt, begunAt: new Date(this.#clock.wallMs()), by: identity, term }
    const { runs } = this.#note
    // Write the record before starting the run. After that, no process runs this time again, whatever happens in
    // between.
    const isNoted = await this.write({ ...planned.head, runs: [run, ...runs] })
    if (!isNoted || !this.#leadership.isLeader()) return undefined
    const startMs = this.#clock.monotonicMs()
    this.#tell({ type: 'begun', run })
    const report = await planned.perform(run)
    if (!report) return undefined
    const ended = this.#ended(run, startMs, report)
    const isEndNoted = await this.write({ ...planned.headAfter?.(report), runs: [ended, ...runs] })
    this.#tell({ type: 'ended', run: ended, ...(report.error !== undefined && { error: report.error }) })
    return { report, run: ended, isNoted: isEndNoted }
  }

  /** Records the end of a run from an earlier term. Returns whether the store has certainly recorded it. */
  recordEnd(run: JobRun, head: Partial<JobState>): Promise<boolean> {
    const { runs } = this.#note
    const isSame = ({ by, term }: JobRun) => by === run.by && term === run.term
    const changed = runs.some(isSame) ? runs.map((each) => (isSame(each) ? run : each)) : [run, ...runs]
    return this.write({ ...head, runs: changed })
  }

  /** Keeps only the newest runs, because a leadership may last for months. */
  #keep(note: JobState): void {
    this.#note = { ...note, runs: note.runs.slice(0, mostRuns) }
  }

  #ended(run: JobRun, startMs: number, { result, error, tries = 1 }: RunReport): JobRun {
    return {
      ...run,
      endedAt: new Date(this.#clock.wallMs()),
      durationMs: Math.round(this.#clock.monotonicMs() - startMs),
      result,
      ...(tries > 1 && { tries }),
      ...(error !== undefined && { error: messageOf(error) }),
    }
  }
}
