import { messageOf } from '@tenure/internal/message'
import type { Clock } from '../clock.ts'
import type { Leadership } from '../leadership.ts'
import type { JobHappening } from './events.ts'
import { mostRuns, readNote, withLostRuns, writeNote, type JobNote, type JobResult, type JobRun } from './note.ts'

/** How a run went. */
export interface RunReport {
  readonly result: JobResult
  readonly error?: unknown
  readonly tries?: number | undefined
}

/** A run that is to be noted, and done. */
export interface PlannedRun<Report extends RunReport> {
  readonly scheduledMs: number
  /** What else the note says from now on. */
  readonly head?: Partial<JobNote> | undefined
  /** Does it. Nothing, if it was too late to begin. */
  perform(run: JobRun): Promise<Report | undefined>
  /** What else the note says when it has ended. */
  headAfter?(report: Report): Partial<JobNote>
}

/** What a planned run came to. */
export interface Done<Report extends RunReport> {
  readonly report: Report
  readonly run: JobRun
  /** Whether the store has the end of it for sure. */
  readonly isNoted: boolean
}

/** The note of a job in the hands of its leader. */
export class Book {
  readonly #leadership: Leadership
  readonly #clock: Clock
  readonly #tell: (happening: JobHappening) => void
  #note: JobNote

  /** Refuses a record that another program uses. */
  constructor(leadership: Leadership, clock: Clock, tell: (happening: JobHappening) => void) {
    this.#leadership = leadership
    this.#clock = clock
    this.#tell = tell
    this.#note = withLostRuns(readNote(leadership.election, leadership.carry), leadership.term)
  }

  get note(): JobNote {
    return this.#note
  }

  /** Notes a time that is left out, and tells of it: once, because the next leader comes to the same. */
  async leaveOut(scheduledMs: number): Promise<void> {
    const { runs } = this.#note
    if (runs.some(({ result, scheduledAt }) => result === 'missed' && scheduledAt.getTime() === scheduledMs)) return
    const scheduledAt = new Date(scheduledMs)
    this.#tell({ type: 'missed', scheduledAt })
    await this.write({ runs: [{ scheduledAt, result: 'missed' }, ...runs] })
  }

  /** Gives whether the store has it for sure. */
  async write(change: Partial<JobNote>): Promise<boolean> {
    const note = { ...this.#note, ...change }
    try {
      await this.#leadership.setCarry(writeNote(note))
      this.#keep(note)
      return true
    } catch (error) {
      // A process that was kept from running learns of its loss here, and only later by the signal.
      if (!this.#leadership.isLeader()) return false
      throw error
    }
  }

  /** Notes a run, does it, and notes its end. Nothing, if it was too late to begin. */
  async run<Report extends RunReport>(planned: PlannedRun<Report>): Promise<Done<Report> | undefined> {
    const { identity, term } = this.#leadership
    const scheduledAt = new Date(planned.scheduledMs)
    const run: JobRun = { scheduledAt, begunAt: new Date(this.#clock.wallMs()), by: identity, term }
    const { runs } = this.#note
    // First the record, then the run: whatever happens in between, nobody runs this time again.
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

  /** Records the end of a run of an earlier term. Gives whether the store has it for sure. */
  recordEnd(run: JobRun, head: Partial<JobNote>): Promise<boolean> {
    const { runs } = this.#note
    const isSame = ({ by, term }: JobRun) => by === run.by && term === run.term
    const changed = runs.some(isSame) ? runs.map((each) => (isSame(each) ? run : each)) : [run, ...runs]
    return this.write({ ...head, runs: changed })
  }

  /** A leadership may last for months. */
  #keep(note: JobNote): void {
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
