import { Refusal } from './refusal.ts'

const unitMs = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 } as const
// What people write for them.
const units = new Map<string, keyof typeof unitMs>(
  Object.entries({
    ms: ['ms', 'msec', 'msecs', 'milli', 'millis', 'millisecond', 'milliseconds'],
    s: ['s', 'sec', 'secs', 'second', 'seconds'],
    m: ['m', 'min', 'mins', 'minute', 'minutes'],
    h: ['h', 'hr', 'hrs', 'hour', 'hours'],
  }).flatMap(([unit, words]) => words.map((word) => [word, unit as keyof typeof unitMs] as const)),
)
/** Timers cannot take more. */
const longestMs = 2 ** 31 - 1

/** Milliseconds of `500ms`, `15s`, `5m`, `1h`. */
export function parseDuration(text: string): number {
  const [, number, word] = /^(\d{1,10}(?:\.\d{1,6})?)\s?([a-z]{0,12})$/i.exec(text) ?? []
  if (number === undefined || word === undefined) throw new Refusal('must be a duration like 500ms, 15s or 1h')
  const unit = units.get(word.toLowerCase())
  if (unit !== word) {
    const meant = unit ?? (word === '' ? 's' : undefined)
    throw new Refusal('must be a duration with a unit of ms, s, m or h', meant && `${number}${meant}`)
  }
  const ms = Math.round(Number(number) * unitMs[unit])
  if (ms < 1 || ms > longestMs) throw new Refusal('must be a duration from 1ms to 596h')
  return ms
}

/** As {@link parseDuration} would take it. */
export function formatDuration(ms: number): string {
  for (const unit of ['h', 'm', 's'] as const) {
    if (ms >= unitMs[unit] && ms % unitMs[unit] === 0) return `${ms / unitMs[unit]}${unit}`
  }
  return `${ms}ms`
}
