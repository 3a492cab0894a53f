import { invalidOption } from '../common/errors.ts'
import { checkOptions, type OptionNames } from '../common/check-options.ts'

/** The times at which a job is due, in Unix milliseconds. All processes of a fleet compute the same times. */
export interface Times {
  /** The schedule for display, such as `0 3 * * *` or `every 5 minutes`. */
  readonly text: string
  /** The newest time that is not in the future. */
  latest(nowMs: number): number | undefined
  /** The first time after `ms`. */
  after(ms: number): number | undefined
}

/**
 * A duration. Its parts are added up.
 *
 * @example
 * const interval: Interval = { hours: 1, minutes: 30 }
 */
export interface Interval {
  readonly days?: number | undefined
  readonly hours?: number | undefined
  readonly minutes?: number | undefined
  readonly seconds?: number | undefined
  readonly milliseconds?: number | undefined
}

const unitMs = { days: 86_400_000, hours: 3_600_000, minutes: 60_000, seconds: 1_000, milliseconds: 1 } as const
const names: OptionNames<Interval> = unitMs
/** With a shorter interval, acquiring the lease and recording the run would take longer than the interval itself. */
const shortestMs = 100
/** One century. Much later times are not valid dates. */
const longestDays = 36_525

/** Converts an interval to milliseconds. */
export function intervalMsOf(option: string, interval: Interval): number {
  checkOptions(option, interval, names)
  let ms = 0
  for (const [unit, each] of Object.entries(unitMs)) {
    const count: unknown = Reflect.get(interval, unit)
    if (count === undefined) continue
    if (typeof count !== 'number' || !(count >= 0)) {
      throw invalidOption(`${option}.${unit}`, count, 'it must be a number of at least 0')
    }
    // Rounding removes the floating-point error of fractions such as 1.1 hours.
    ms += Math.round(count * each * 1_000) / 1_000
  }
  if (Number.isSafeInteger(ms) && ms >= shortestMs && ms <= longestDays * unitMs.days) return ms
  const rule = `it must be a whole number of milliseconds, at least ${shortestMs} ms and at most ${longestDays} days, such as { minutes: 5 }`
  throw invalidOption(option, ms, rule)
}

/**
 * Times that are one interval apart, counted from the epoch, so that every process computes the same times whenever it
 * started.
 */
export function intervalTimes(intervalMs: number): Times {
  const latest = (nowMs: number) => Math.floor(nowMs / intervalMs) * intervalMs
  return { text: `every ${wordsOf(intervalMs)}`, latest, after: (ms) => latest(ms) + intervalMs }
}

function wordsOf(ms: number): string {
  for (const [unit, each] of Object.entries(unitMs)) {
    if (ms % each !== 0) continue
    const count = ms / each
    return count === 1 ? unit.slice(0, -1) : `${count} ${unit}`
  }
  return `${ms} milliseconds`
}
