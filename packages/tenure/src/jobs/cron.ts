import { messageOf } from '@tenure/internal/message'
import { nearest } from '@tenure/internal/nearest'
import { invalidOption, optionError, show } from '../common/errors.ts'
import { loadDriverSync } from '../store-kit/load-package.ts'
import type { Times } from './due-times.ts'

/** The part of the class `Cron` of the package "croner" that is used. */
interface Cron {
  nextRun(after: Date): Date | null
  previousRuns(count: number, before: Date): Date[]
  getPattern(): string | undefined
}

interface CronOptions {
  readonly timezone: string
  readonly paused: true
  readonly mode: '5-or-6-parts'
}

type CronClass = new (pattern: string, options: CronOptions) => Cron

const need = 'A cron expression needs the package "croner"'
const instead = 'Intervals such as { minutes: 5 } work without it.'
const nicknames = ['@yearly', '@annually', '@monthly', '@weekly', '@daily', '@midnight', '@hourly']
const shape = 'a cron expression of five fields, or six with seconds, such as "*/5 * * * *"'

/** The times of a cron expression in a time zone. Throws immediately if the expression is invalid. */
export function cronTimes(option: string, pattern: string, timezone: string): Times {
  checkShape(option, pattern)
  const cron = cronOf(option, pattern, timezone)
  return {
    text: pattern.trim(),
    latest(nowMs) {
      // The parser returns runs strictly before a given time, in whole seconds.
      const [slot] = cron.previousRuns(1, new Date(Math.floor(nowMs / 1_000) * 1_000 + 1_000))
      return slot?.getTime()
    },
    after: (ms) => cron.nextRun(new Date(ms))?.getTime(),
  }
}

/** Accepts five fields, six with seconds, or a nickname such as @hourly. */
function checkShape(option: string, pattern: string): void {
  const text = pattern.trim()
  if (text.startsWith('@')) {
    if (nicknames.includes(text.toLowerCase())) return
    const rule = `it must be one of ${nicknames.join(', ')}, or ${shape}`
    const meant = nearest(text, nicknames)
    throw optionError({
      option,
      value: show(pattern),
      rule,
      ...(meant !== undefined && { advice: `Did you mean "${meant}"?` }),
    })
  }
  // The parser would also accept a date, which occurs only once.
  if (![5, 6].includes(text.split(/\s+/).length)) throw invalidOption(option, pattern, `it must be ${shape}`)
}

function cronOf(option: string, pattern: string, timezone: string): Cron {
  const { Cron: Parser } = loadDriverSync('croner', need, instead) as { Cron: CronClass }
  let cron: Cron | undefined
  try {
    cron = new Parser(pattern, { timezone, paused: true, mode: '5-or-6-parts' })
  } catch (error) {
    const why = reasonOf(messageOf(error), pattern)
    throw invalidOption(option, pattern, `it must be a cron expression, such as "*/5 * * * *": ${why}`)
  }
  if (cron.getPattern() !== undefined && cron.nextRun(new Date(0))) return cron
  throw invalidOption(option, pattern, 'it must be a cron expression that matches some day, such as "*/5 * * * *"')
}

function reasonOf(message: string, pattern: string): string {
  const fields = pattern.trim().split(/\s+/)
  // The parser prepends seconds to five fields, counts fields from 0, and replaces the names of months and days.
  const reason = message.replace(/^CronPattern: /, '').replace(/^configuration entry (\d) .*$/, (_, entry: string) => {
    const index = Number(entry) - (fields.length === 5 ? 1 : 0)
    return `its field ${index + 1} (${fields[index]}) is not understood`
  })
  return reason.replace(/\.$/, '')
}

/** Returns the canonical name of a time zone. */
export function timezoneOf(option: string, text: unknown): string {
  try {
    if (typeof text === 'string') return new Intl.DateTimeFormat('en', { timeZone: text }).resolvedOptions().timeZone
  } catch {
    // The error below reports an unknown time zone.
  }
  const meant = typeof text === 'string' && nearest(text, ['UTC', ...Intl.supportedValuesOf('timeZone')])
  throw optionError({
    option,
    value: show(text),
    rule: 'it must be a time zone, such as Europe/Zurich or UTC',
    ...(meant && { advice: `Did you mean "${meant}"?` }),
  })
}
