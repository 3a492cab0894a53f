import { messageOf } from '@tenure/internal/message'
import { nearest } from '@tenure/internal/nearest'
import { Cron } from 'croner'
import { CommandError, exitCodes } from '../shared/arguments/errors.ts'
import { Refusal } from '../shared/arguments/refusal.ts'
import type { RunSettings } from './settings.ts'

/** A scheduled run. Its slot, the wall-clock time it was meant for, is never run again by any machine. */
export interface Slot {
  readonly slotMs: number
  /** How long until it begins; 0 if it is due. */
  readonly waitMs: number
  /** The newest one that is left out, if there is one. */
  readonly missedMs: number | undefined
}

/** The times of a cron expression. */
export class Schedule {
  readonly #cron: Cron
  readonly #missed: RunSettings['missed']
  readonly #toleranceMs: number

  /** A run that begins at most `toleranceMs` late was not missed. */
  constructor(options: { pattern: string; timezone: string; missed: RunSettings['missed']; toleranceMs: number }) {
    this.#cron = new Cron(options.pattern, { timezone: options.timezone, paused: true, mode: '5-or-6-parts' })
    this.#missed = options.missed
    this.#toleranceMs = options.toleranceMs
  }

  /** The newest slot that is not in the future. */
  latest(nowMs: number): number | undefined {
    // The parser looks before a moment, in whole seconds.
    const [slot] = this.#cron.previousRuns(1, new Date(Math.floor(nowMs / 1_000) * 1_000 + 1_000))
    return slot?.getTime()
  }

  /** What to run next, after the slot that was run last. Nothing if no time will ever come. */
  next(lastMs: number, nowMs: number): Slot | undefined {
    const latestMs = this.latest(nowMs)
    const openMs = latestMs !== undefined && latestMs > lastMs ? latestMs : undefined
    if (openMs !== undefined && (this.#missed === 'run-once' || nowMs - openMs <= this.#toleranceMs)) {
      return { slotMs: openMs, waitMs: 0, missedMs: undefined }
    }
    // A slot at or before the last one is never run, however far behind this clock may be.
    const slot = this.#cron.nextRun(new Date(Math.max(lastMs, nowMs)))
    return slot ? { slotMs: slot.getTime(), waitMs: slot.getTime() - nowMs, missedMs: openMs } : undefined
  }
}

const nicknames = ['@yearly', '@annually', '@monthly', '@weekly', '@daily', '@midnight', '@hourly']
const shape = 'a cron expression of five fields, or six with seconds, such as "*/5 * * * *"'

/** A cron expression of five fields, six with seconds, or a name such as @hourly. */
export function parseCron(text: string): string {
  const fields = text.trim().split(/\s+/)
  const isNickname = text.trim().startsWith('@')
  if (isNickname && !nicknames.includes(text.trim().toLowerCase())) {
    throw new Refusal(`must be one of ${nicknames.join(', ')}, or ${shape}`, nearest(text, nicknames))
  }
  // The parser would accept a date too, which happens only once.
  if (!isNickname && fields.length !== 5 && fields.length !== 6) throw new Refusal(`must be ${shape}`)
  try {
    const cron = new Cron(text, { paused: true, timezone: 'UTC', mode: '5-or-6-parts' })
    if (cron.getPattern() !== undefined && cron.nextRun()) return text
  } catch (error) {
    const why = messageOf(error).replace(/^CronPattern: /, '')
    // The parser has put seconds before five fields, counts from 0, and has replaced names of months and days.
    const reason = why.replace(/^configuration entry (\d) .*$/, (_, entry: string) => {
      const index = Number(entry) - (fields.length === 5 ? 1 : 0)
      return `its field ${index + 1} (${fields[index]}) is not understood`
    })
    throw new Refusal(`must be a cron expression, such as "*/5 * * * *": ${reason.replace(/\.$/, '')}`)
  }
  throw new Refusal('must be a cron expression that matches some day, such as "*/5 * * * *"')
}

export function parseTimezone(text: string): string {
  try {
    return new Intl.DateTimeFormat('en', { timeZone: text }).resolvedOptions().timeZone
  } catch {
    throw new Refusal(
      'must be a time zone, such as Europe/Zurich or UTC',
      nearest(text, ['UTC', ...Intl.supportedValuesOf('timeZone')]),
    )
  }
}

/** The last run as the election's record carries it from leader to leader. */
export function readCarry(election: string, carry: string): number | undefined {
  if (carry === '') return undefined
  try {
    const { lastRun } = JSON.parse(carry) as { lastRun?: unknown }
    const ms = typeof lastRun === 'string' ? Date.parse(lastRun) : NaN
    if (Number.isFinite(ms)) return ms
  } catch {
    // Told below.
  }
  throw new CommandError(
    `The record of "${election}" carries something that is not the time of a run: another program uses this election. ` +
      'Choose another name for the job.',
    exitCodes.failed,
  )
}

export function writeCarry(slotMs: number): string {
  return JSON.stringify({ lastRun: new Date(slotMs).toISOString() })
}
