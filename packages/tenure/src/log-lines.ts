import { contain } from '@tenure/internal/contain'
import type { Clock } from './clock.ts'
import { defaultLog, type Log } from './log.ts'

const windowMs = 60_000
/** How many lines of one kind are written within a window before the rest is only counted. */
const mostLines = 5
/** Lines beyond that share one kind, so that neither memory nor the number of lines grows with what servers say. */
const mostKinds = 50
const otherKind = 'other'
/** A count names this many elections and jobs; the rest is counted together. */
const mostNames = 20
const longestText = 4_000

/** What belongs to a line besides its text. */
export interface LineOptions {
  /** What the line is about. A line that is only counted is counted under its name. */
  readonly name?: string
  /** The same text again is only counted. For errors that come at every try. */
  readonly countsRepeats?: boolean
  /** Gives further lines, such as a stack. */
  readonly detailOf?: () => string | undefined
}

/** The lines of one kind, from the first one on. */
interface Window {
  readonly level: keyof Log
  startMs: number
  written: number
  /** How many were counted, and not written. */
  held: number
  /** How many of these have which name. */
  readonly heldNames: Map<string, number>
  last: string
  lastHeld: string
  /** Whether the count was written before the end of the window. */
  isSummed: boolean
}

/**
 * Writes lines to a log, all those of a process that have one clock and one log. Lines are of one kind if they differ in
 * names and numbers only: ten thousand electors whose store goes away say the same. Of each kind at most five lines are
 * written in a minute, and then one with the number of the rest, by name. Info lines are all written: who passes a log
 * wants them, and they come at the pace of elections and runs.
 *
 * Without a timer: a summary is written as soon as anything happens after its minute, or when the last elector stops.
 */
export class LogLines {
  readonly #clock: Clock
  readonly #log: Log
  readonly #windows = new Map<string, Window>()
  #users = 0
  #dueMs = Infinity

  static readonly #all = new WeakMap<Clock, WeakMap<Log, LogLines>>()

  /** Those of a log; of the default log if none is given; none if the log is false. */
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

  /** Somebody begins to write lines. */
  open(): void {
    this.#users += 1
  }

  /** Somebody has written its last line. After the last one nothing may happen for long, so the counts are written now. */
  close(): void {
    this.#users -= 1
    if (this.#users > 0) return
    const nowMs = this.#clock.monotonicMs()
    for (const window of this.#windows.values()) {
      // Once a minute, or electors that start and stop again and again would write without a bound.
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

  /** To be called when something happens, even if there is no line to write. */
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
        // The count is the first line of the next minute.
        Object.assign(window, { startMs: nowMs, written: 1, isSummed: false })
      }
      this.#dueMs = Math.min(this.#dueMs, window.startMs + windowMs)
    }
  }

  #windowOf(level: keyof Log, text: string, nowMs: number): Window {
    const kind = `${level} ${text.replaceAll(/"[^"]*"|\d+/g, '').slice(0, 80)}`
    const known = this.#windows.get(kind)
    if (known) return known
    const isRoom = this.#windows.size < mostKinds
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
    // Before the log is called, which may call back in.
    window.held = 0
    window.heldNames.clear()
    const lines = held === 1 ? 'line' : 'lines'
    this.#print(
      level,
      `in the last ${inWords(nowMs - window.startMs)}, ${held} more ${lines}${names} like: ${lastHeld}`,
    )
  }

  #print(level: keyof Log, text: string): void {
    // As a method: loggers use `this`. A log that fails must not hurt an election.
    contain(
      () => this.#log[level](`tenure: ${text}`),
      () => undefined,
    )
  }
}

function hold(window: Window, text: string, name: string | undefined): void {
  const { heldNames } = window
  window.held += 1
  window.lastHeld = text
  if (name === undefined || (heldNames.size >= mostNames && !heldNames.has(name))) return
  heldNames.set(name, (heldNames.get(name) ?? 0) + 1)
}

/** Whose lines were held, unless all are of the one that is shown. */
function namesOf({ held, heldNames }: Window): string {
  const counts = [...heldNames].map(([name, count]) => `"${name}" ${count}`)
  const others = [...heldNames.values()].reduce((rest, count) => rest - count, held)
  if (others > 0 && counts.length > 0) counts.push(`others ${others}`)
  return counts.length > 1 ? ` (${counts.join(', ')})` : ''
}

/** Servers decide what is in their errors: what a terminal would obey becomes a space, and the length has a limit. */
function printable(text: string): string {
  return text.slice(0, longestText).replaceAll(/[^\P{Cc}\n]+/gu, ' ')
}

/** A duration for people. */
export function inWords(ms: number): string {
  if (ms < 999.5) return `${Math.round(ms)} ms`
  if (ms < 9_950) return `${(ms / 1_000).toFixed(1)} s`
  if (ms < 120_000) return `${Math.round(ms / 1_000)} s`
  const minutes = Math.round(ms / 60_000)
  return minutes < 120 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`
}
