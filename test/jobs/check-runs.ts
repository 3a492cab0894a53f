/** The requirements for the runs of a fleet's jobs, no matter what happened to its processes. */
import type { JobRun } from 'tenure/jobs'

/** A log line that a process writes while it runs a job. */
export interface RunLine {
  readonly event: 'begin' | 'works' | 'end'
  readonly job: string
  readonly slotMs: number
  readonly by: string
  readonly term: number
  /** A time on the clock that all processes share. It is read before the process checks whether it still leads. */
  readonly at: number
}

/** The input of the check. */
export interface Runs {
  readonly lines: readonly RunLine[]
  readonly jobs: readonly string[]
  /** Every slot that should have been run. */
  readonly slots: readonly number[]
  /** Which process recorded the start of a slot, by `job slot`. */
  readonly noted: ReadonlyMap<string, string>
  /** The processes that were killed or paused, if nothing else can make a process lose its lease. */
  readonly victims?: ReadonlySet<string> | undefined
}

export interface RunsCheck {
  readonly violations: readonly string[]
  readonly ran: number
  /** The slots whose process was killed or lost its lease between recording the slot and starting the run. */
  readonly lostBeforeBegin: number
  /** The runs without an end, because their process was killed or lost its lease. */
  readonly lostInTheMiddle: number
}

/** Records a slot. A missed slot is also recorded, but no process started it. */
export function noteRun(noted: Map<string, string>, job: string, { scheduledAt, begunAt, by = '' }: JobRun): void {
  if (begunAt) noted.set(slotKey(job, scheduledAt.getTime()), by)
}

export const slotKey = (job: string, slotMs: number): string => `${job} ${slotMs}`

export function checkRuns({ lines, jobs, slots, noted, victims }: Runs): RunsCheck {
  const violations: string[] = []
  const begun = new Map<string, RunLine[]>()
  const ended = new Set<string>()
  for (const line of lines) {
    const key = slotKey(line.job, line.slotMs)
    if (line.event === 'begin') begun.set(key, [...(begun.get(key) ?? []), line])
    if (line.event === 'end') ended.add(key)
  }
  for (const [key, runs] of begun) {
    if (runs.length > 1) violations.push(`${key} ran ${runs.length} times: ${runs.map(({ by }) => by).join(', ')}`)
  }
  violations.push(...jobs.flatMap((job) => findOverlaps(lines.filter((line) => line.job === job))))
  let lostBeforeBegin = 0
  for (const job of jobs) {
    for (const slotMs of slots) {
      const key = slotKey(job, slotMs)
      if (begun.has(key)) continue
      const by = noted.get(key)
      if (by === undefined) violations.push(`${key} was skipped`)
      else if (victims && !victims.has(by)) violations.push(`${key} was recorded by ${by}, which did not run it`)
      else lostBeforeBegin += 1
    }
  }
  const ran = jobs.flatMap((job) => slots.filter((slotMs) => begun.has(slotKey(job, slotMs)))).length
  const lostInTheMiddle = [...begun.keys()].filter((key) => !ended.has(key)).length
  return { violations, ran, lostBeforeBegin, lostInTheMiddle }
}

/** Returns the moments at which a run was still working although a later one had started. */
function findOverlaps(lines: readonly RunLine[]): string[] {
  const begins = lines.filter(({ event }) => event === 'begin')
  return lines
    .filter(({ event }) => event === 'works')
    .flatMap((line) => {
      const other = begins.find(({ term, slotMs, at }) => at < line.at && slotMs > line.slotMs && term >= line.term)
      return other ? [`${slotKey(line.job, line.slotMs)} was still running when ${other.slotMs} had started`] : []
    })
    .slice(0, 3)
}
