/** What must hold of the runs of a fleet's jobs, whatever happened to its processes. */
import type { JobRun } from 'tenure/jobs'

/** What a process wrote while it ran a job. */
export interface RunLine {
  readonly event: 'begin' | 'works' | 'end'
  readonly job: string
  readonly slotMs: number
  readonly by: string
  readonly term: number
  /** On a clock that all processes share, taken before the process looked whether it still leads. */
  readonly at: number
}

/** What is looked at. */
export interface Runs {
  readonly lines: readonly RunLine[]
  readonly jobs: readonly string[]
  /** Every time that should have been run by somebody. */
  readonly slots: readonly number[]
  /** Who has noted that it begins a time, by `job slot`. */
  readonly noted: ReadonlyMap<string, string>
  /** Processes that were killed or paused, if nothing else can make a process lose its lease. */
  readonly victims?: ReadonlySet<string> | undefined
}

export interface Verdict {
  readonly violations: readonly string[]
  readonly ran: number
  /** Times whose runner was killed or lost its lease between the note and the beginning of the run. */
  readonly lostBeforeBegin: number
  /** Runs that have no end, because their process was killed or lost its lease. */
  readonly lostInTheMiddle: number
}

/** A time that was left out has been noted too, but nobody began it. */
export function noteRun(noted: Map<string, string>, job: string, { scheduledAt, begunAt, by = '' }: JobRun): void {
  if (begunAt) noted.set(slotKey(job, scheduledAt.getTime()), by)
}

export const slotKey = (job: string, slotMs: number): string => `${job} ${slotMs}`

export function checkRuns({ lines, jobs, slots, noted, victims }: Runs): Verdict {
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
      if (by === undefined) violations.push(`${key} was left out`)
      else if (victims && !victims.has(by)) violations.push(`${key} was noted by ${by}, which did not run it`)
      else lostBeforeBegin += 1
    }
  }
  const ran = jobs.flatMap((job) => slots.filter((slotMs) => begun.has(slotKey(job, slotMs)))).length
  const lostInTheMiddle = [...begun.keys()].filter((key) => !ended.has(key)).length
  return { violations, ran, lostBeforeBegin, lostInTheMiddle }
}

/** Moments at which a run still worked although a later one had begun. */
function findOverlaps(lines: readonly RunLine[]): string[] {
  const begins = lines.filter(({ event }) => event === 'begin')
  return lines
    .filter(({ event }) => event === 'works')
    .flatMap((line) => {
      const other = begins.find(({ term, slotMs, at }) => at < line.at && slotMs > line.slotMs && term >= line.term)
      return other ? [`${slotKey(line.job, line.slotMs)} still worked when ${other.slotMs} had begun`] : []
    })
    .slice(0, 3)
}
