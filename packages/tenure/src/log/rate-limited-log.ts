import { callSafely } from '@tenure/internal/call-safely'
import type { Clock } from '../common/clock.ts'
import { defaultLog, type Log } from './log.ts'

const windowMs = 60_000
/** How many lines of one kind are written within a window. Further lines are only counted. */
const mostLines = 5
/**
 * When there are this many kinds, all further lines share one kind, so that server messages can increase neither the
 * memory used nor the number of lines without limit.
 */
const maxKinds = 50
/** A summary counts this many elections and jobs by name, and the rest together. */
const maxNames = 20
const longestText = 4_000

/** Properties of a line besides its text. */
export interface LineOptions {
  /** The subject of the line. A line that is only counted is counted under this name. */
  readonly name?: string
  /** Whether a line that repeats the previous text is only counted. Set for errors that occur on every try. */
  readonly countsRepeats?: boolean
  /** Returns additional lines, such as a stack. */
  readonly detailOf?: () => string | undefined
}

/** The lines of one kind since the window started. */
interface Window {
  readonly level: keyof Log
  startMs: number
  written: number
  /** How many lines were counted but not written. */
  held: number
  /** How many of these lines belong to each name. */
  readonly heldNames: Map<string, number>
  last: string
  lastHeld: string
  /** Whether a summary was written before the end of the window. */
  isSummed: boolean
}

/**
 * Writes lines to a log. All users in a process with the same clock and log share one instance. Lines that differ only
 * in names and numbers are of one kind: when a store fails, ten thousand electors all log the same line. At most five
 * lines of each kind are written per minute, followed by one that counts the remaining lines by name. All info lines
 * are written: a user who passes a log wants them, and they are only as frequent as elections and runs.
 *
 * There is no timer. A summary is written at the first activity after its minute, or when the last elector stops.
 */
export class LogLines {
  readonly #clock: Clock
  readonly #log: Log
  readonly #windows = new Map<string, Window>()
  #users = 0
  #dueMs = Infinity

  static readonly #all = new WeakMap<Clock, WeakMap<Log, LogLines>>()

  /** Returns the instance for a log, by default for the default log. Undefined if the log is false. */
  static of(clock: Clock, log: Log | false | undefined = defaultLog): LogLines | undefined {
    if (log === false) return undefined
    let ofClock = LogLines.#all.get(clock)
    if (!ofClock) LogLines.#all.set(clock, (ofClock = new WeakMap()))
    let lines = ofClock.get(log)
    if (!lines) ofClock.set(log, (lines = new LogLines(clock, log)))
    return lines
  }

  private constructor(clock: Clock, log: Log) {
    this.#clock = clock
    this.#log = log
  }

  /** Registers a user of this instance. */
  open(): void {
    this.#users += 1
  }

  /**
   * Unregisters a user. After the last one unregisters, there may be no activity for a long time, so the summaries are
   * written now.
   */
  close(): void {
    this.#users -= 1
    if (this.#users > 0) return
    const nowMs = this.#clock.monotonicMs()
    for (const window of this.#windows.values()) {
      // At most once per minute. Otherwise electors that start and stop repeatedly would write without limit.
      if (window.held === 0 || window.isSummed) continue
      window.isSummed = true
      this.#sum(window, nowMs)
    }
  }

  /** Writes a line, or counts it. */
  write(level: keyof Log, message: string, { name, countsRepeats = false, detailOf }: LineOptions = {}): void {
    const nowMs = this.#clock.monotonicMs()
    this.tick(nowMs)
    const text = printable(message).replaceAll('\n', ' ')
    if (level === 'info') return this.#print(level, text)
    const window = this.#windowOf(level, text, nowMs)
    const isRepeat = countsRepeats && window.written > 0 && window.last === text
    window.last = text
    if (isRepeat || window.written >= mostLines) return hold(window, text, name)
    window.written += 1
    const detail = detailOf?.()
    this.#print(level, detail === undefined ? text : `${text}\n${printable(detail)}`)
  }

  /** Call this on any activity, even if there is no line to write. */
  tick(nowMs: number): void {
    if (nowMs < this.#dueMs) return
    this.#dueMs = Infinity
    for (const [kind, window] of this.#windows) {
      if (nowMs >= window.startMs + windowMs) {
        if (window.held === 0) {
          this.#windows.delete(kind)
          continue
        }
        this.#sum(window, nowMs)
        // The summary counts as the first line of the next minute.
        Object.assign(window, { startMs: nowMs, written: 1, isSummed: false })
      }
      this.#dueMs = Math.min(this.#dueMs, window.startMs + windowMs)
    }
  }

  #windowOf(level: keyof Log, text: string, nowMs: number): Window {
    const kind = `${level} ${text.replaceAll(/"[^"]*"|\d+/g, '').slice(0, 80)}`
    const known = this.#windows.get(kind)
    if (known) return known
    const isRoom = this.#windows.size < maxKinds
    // There is one summary for each level, because a summary of errors must not be written as a warning.
    const otherKind = `${level} other`
    const shared = isRoom ? undefined : this.#windows.get(otherKind)
    if (shared) return shared
    const window: Window = {
      level,
      startMs: nowMs,
      written: 0,
      held: 0,
      heldNames: new Map(),
      last: text,
      lastHeld: text,
      isSummed: false,
    }
    this.#windows.set(isRoom ? kind : otherKind, window)
    this.#dueMs = Math.min(this.#dueMs, nowMs + windowMs)
    return window
  }

  #sum(window: Window, nowMs: number): void {
    const { level, held, lastHeld } = window
    const names = namesOf(window)
    // Reset before calling the log, because the log may call back in.
    window.held = 0
    window.heldNames.clear()
    const lines = held === 1 ? 'line' : 'lines'
    this.#print(
      level,
      `in the last ${formatDuration(nowMs - window.startMs)}, ${held} more ${lines}${names} like: ${lastHeld}`,
    )
  }

  #print(level: keyof Log, text: string): void {
    // Called as a method, because loggers use `this`. A failing log must not affect an election.
    callSafely(
      () => this.#log[level](`tenure: ${text}`),
      () => undefined,
    )
  }
}

function hold(window: Window, text: string, name: string | undefined): void {
  const { heldNames } = window
  window.held += 1
  window.lastHeld = text
  if (name === undefined || (heldNames.size >= maxNames && !heldNames.has(name))) return
  heldNames.set(name, (heldNames.get(name) ?? 0) + 1)
}

/** The names of the counted lines, unless all of them have the same name. */
function namesOf({ held, heldNames }: Window): string {
  const counts = [...heldNames].map(([name, count]) => `"${name}" ${count}`)
  const others = [...heldNames.values()].reduce((rest, count) => rest - count, held)
  if (others > 0 && counts.length > 0) counts.push(`others ${others}`)
  return counts.length > 1 ? ` (${counts.join(', ')})` : ''
}

/**
 * Servers control the text of their errors, so terminal control characters become spaces, and the length is limited.
 */
function printable(text: string): string {
  return text.slice(0, longestText).replaceAll(/[^\P{Cc}\n]+/gu, ' ')
}

/** Formats a duration for display. */
export function formatDuration(ms: number): string {
  if (ms < 999.5) return `${Math.round(ms)} ms`
  if (ms < 9_950) return `${(ms / 1_000).toFixed(1)} s`
  if (ms < 120_000) return `${Math.round(ms / 1_000)} s`
  const minutes = Math.round(ms / 60_000)
  return minutes < 120 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`
}
