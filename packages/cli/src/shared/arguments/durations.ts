import { InvalidValue } from './invalid-value.ts'

const unitMs = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 } as const
// Common spellings of these units, for suggestions.
const units = new Map<string, keyof typeof unitMs>(
  Object.entries({
    ms: ['ms', 'msec', 'msecs', 'milli', 'millis', 'millisecond', 'milliseconds'],
    s: ['s', 'sec', 'secs', 'second', 'seconds'],
    m: ['m', 'min', 'mins', 'minute', 'minutes'],
    h: ['h', 'hr', 'hrs', 'hour', 'hours'],
  }).flatMap(([unit, words]) => words.map((word) => [word, unit as keyof typeof unitMs] as const)),
)
/** Units that are not accepted but often written, in hours, for suggestions. */
const longUnits = new Map(Object.entries({ d: 24, day: 24, days: 24, w: 168, week: 168, weeks: 168 }))
/** The longest delay that a timer accepts. */
const longestMs = 2 ** 31 - 1

/** Parses `500ms`, `15s`, `5m` or `1h` into milliseconds. */
export function parseDuration(text: string): number {
  const [, number, word] = /^(\d{1,10}(?:\.\d{1,6})?)\s?([a-z]{0,12})$/i.exec(text) ?? []
  if (number === undefined || word === undefined) throw new InvalidValue('must be a duration like 500ms, 15s or 1h')
  const unit = units.get(word.toLowerCase())
  if (unit !== word) {
    throw new InvalidValue('must be a duration with a unit of ms, s, m or h', meant(Number(number), word.toLowerCase()))
  }
  const ms = Math.round(Number(number) * unitMs[unit])
  if (ms < 1 || ms > longestMs) throw new InvalidValue('must be a duration from 1ms to 596h')
  return ms
}

function meant(number: number, word: string): string | undefined {
  const hours = longUnits.get(word)
  const unit = hours === undefined ? units.get(word || 's') : 'h'
  const count = Number((number * (hours ?? 1)).toFixed(6))
  return unit && count * unitMs[unit] <= longestMs ? `${count}${unit}` : undefined
}

/** Formats milliseconds so that {@link parseDuration} accepts them. */
export function formatDuration(ms: number): string {
  for (const unit of ['h', 'm', 's'] as const) {
    if (ms >= unitMs[unit] && ms % unitMs[unit] === 0) return `${ms / unitMs[unit]}${unit}`
  }
  return `${ms}ms`
}

const dayMs = 86_400_000

/** Returns a parser for lifetimes: a number of days such as `30d`, or a duration. The result is in milliseconds. */
export function lifetimeOf({ mostDays }: { readonly mostDays: number }): (text: string) => number {
  return (text) => {
    const [, days] = /^(\d{1,5})d$/.exec(text) ?? []
    const ms = days === undefined ? parseDuration(text) : Number(days) * dayMs
    if (ms < 60_000 || ms > mostDays * dayMs)
      throw new InvalidValue(`must be from 1m to ${mostDays}d, such as 12h or 30d`)
    return ms
  }
}
