import { usageError } from '../errors.ts'
import type { RunSettings } from '../commands/run-settings.ts'
import { argument } from '../settings.ts'
import { Conductor, type Mode } from './conductor.ts'
import type { Messages } from './messages.ts'
import { atMostOncePer, scheduled, service } from './modes.ts'
import { openRunStore } from './open-store.ts'
import type { Plan } from './plan.ts'
import { parseCron, parseTimezone, Schedule } from './schedule.ts'
import { divideLease } from './timings.ts'

/** A run that begins this late was not missed: a take-over may have come in between. */
const shortestToleranceMs = 60_000

/** Refuses what cannot be done, before anything is started or connected to. */
export function prepare(
  election: string,
  words: readonly string[],
  settings: RunSettings,
): (messages: Messages) => Promise<number> {
  if (process.platform === 'win32') throw usageError(['tenure run needs process groups, which Windows does not have.'])
  const [command = '', ...args] = words
  const timings = divideLease(settings.ttl, settings.grace)
  const mode = modeOf(settings)
  const keepsRuns = settings.every !== undefined || settings.atMostOncePer !== undefined
  const plan: Plan = {
    election,
    identity: settings.identity,
    command,
    args,
    timings,
    drainTimeoutMs: settings.drainTimeout,
    storeTimeoutMs: settings.storeTimeout,
    isQuiet: settings.quiet,
    async openStore(supervision) {
      const store = await openRunStore(settings, supervision)
      if (store.terms || !keepsRuns) return store
      throw usageError(['This store keeps nothing between leaders, so no run could be noted in it.'])
    },
  }
  return (messages) => new Conductor(plan, messages).conduct(mode)
}

function modeOf(settings: RunSettings): Mode {
  const { once, hold, restart, restartDelay, every, atMostOncePer: intervalMs, missed, ttl } = settings
  if (intervalMs !== undefined) return atMostOncePer(intervalMs)
  if (every === undefined) {
    return service({ once, hold, policy: restart ?? (once ? 'on-failure' : 'always'), firstDelayMs: restartDelay })
  }
  const toleranceMs = Math.max(shortestToleranceMs, 2 * ttl)
  const pattern = argument('--every', every, parseCron)
  const timezone = argument('--timezone', settings.timezone, parseTimezone)
  return scheduled(new Schedule({ pattern, timezone, missed, toleranceMs }))
}
