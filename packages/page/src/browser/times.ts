/** Formats times in the viewer's time zone. */

const clock = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit', hour12: false })
const day = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', year: 'numeric' })

/** Hours, minutes and seconds. */
export function clockTime(ms: number): string {
  return clock.format(ms)
}

/** The time, preceded by the day unless it is the day of `nowMs`. */
export function moment(ms: number, nowMs: number): string {
  const that = day.format(ms)
  return that === day.format(nowMs) ? clockTime(ms) : `${that}, ${clockTime(ms)}`
}

/** The full time, for tooltips. */
export function exactly(ms: number): string {
  return new Date(ms).toISOString()
}

/** How far local time is ahead of UTC at a moment, in milliseconds. */
export function zoneMs(ms: number): number {
  return -new Date(ms).getTimezoneOffset() * 60_000
}
