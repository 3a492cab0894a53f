import { isTenureError, type ElectionMetrics, type LeaseStore, type Metadata } from 'tenure'
import { cronSchedule, type JobSchedule } from 'tenure/jobs'
import { usageError } from '../shared/arguments/errors.ts'
import { Refusal } from '../shared/arguments/refusal.ts'
import { argument } from '../shared/arguments/settings.ts'
import { serveMetrics } from '../shared/metrics-server.ts'
import type { RunningServer } from '../shared/small-server.ts'
import { nodeForService, openChosenStore } from '../shared/store.ts'
import type { Mode } from './conductor.ts'
import { atMostOncePer, scheduled, service } from './modes.ts'
import type { RunSettings } from './settings.ts'
import type { Supervision } from './supervision.ts'
import { divideLease, type RunTimings } from './timings.ts'

/** What `tenure run` was asked to do. */
export interface Plan {
  readonly election: string
  readonly identity: string | undefined
  /** Shown to others while it leads. */
  readonly metadata: Metadata | undefined
  readonly command: string
  readonly args: readonly string[]
  readonly mode: Mode
  readonly timings: RunTimings
  readonly drainTimeoutMs: number
  /** After this a run is ended. */
  readonly maxRuntimeMs: number | undefined
  readonly storeTimeoutMs: number
  /** Whether the command gets what opens the store. */
  readonly passesSecrets: boolean
  /** Report only what goes wrong. */
  readonly isQuiet: boolean
  openStore(supervision: Supervision): Promise<LeaseStore>
  /** Where metrics are shown, if they are. */
  showMetrics(metrics: ElectionMetrics): Promise<RunningServer | undefined>
}

/** Refuses what cannot be done, before anything is started or connected to. */
export function planOf(election: string, words: readonly string[], settings: RunSettings): Plan {
  if (process.platform === 'win32') throw usageError(['tenure run needs process groups, which Windows does not have.'])
  const [command = '', ...args] = words
  return {
    election,
    identity: settings.identity ?? nodeForService(settings.store, settings),
    metadata: settings.metadata,
    command,
    args,
    timings: divideLease(settings.ttl, settings.grace),
    mode: modeOf(settings),
    drainTimeoutMs: settings.drainTimeout,
    maxRuntimeMs: hasRuns(settings) ? settings.maxRuntime : undefined,
    storeTimeoutMs: settings.storeTimeout,
    passesSecrets: settings.passSecrets,
    isQuiet: settings.quiet,
    openStore: (supervision) => openRunStore(settings, supervision),
    showMetrics: (metrics) => serveMetrics('command', settings, metrics),
  }
}

/** Whether the command is to end by itself. */
function hasRuns({ once, every, atMostOncePer: intervalMs }: RunSettings): boolean {
  return once || every !== undefined || intervalMs !== undefined
}

/**
 * Opens the store that was chosen. In the file store, others take over as soon as the holder is dead: here that is when
 * both this process and the supervisor are, so that they never overtake a command that is still being killed.
 */
async function openRunStore(settings: RunSettings, supervision: Supervision): Promise<LeaseStore> {
  const store = await openChosenStore(settings, {
    signOfLife: (attempt, path) => (path === undefined ? undefined : supervision.openSign(attempt, path)),
  })
  const keepsRuns = settings.every !== undefined || settings.atMostOncePer !== undefined
  if (store.terms || !keepsRuns) return store
  throw usageError(['This store keeps nothing between leaders, so no run could be noted in it.'])
}

function modeOf(settings: RunSettings): Mode {
  const { once, hold, restart, restartDelay, every, atMostOncePer: intervalMs } = settings
  if (intervalMs !== undefined) return atMostOncePer(intervalMs)
  if (every === undefined) {
    return service({ once, hold, policy: restart ?? (once ? 'never' : 'always'), firstDelayMs: restartDelay })
  }
  return scheduled(scheduleOf(every, settings))
}

function scheduleOf(every: string, { timezone, missed, ttl }: RunSettings): JobSchedule {
  // Apart from each other, so that the message names the one that is wrong.
  argument('--timezone', timezone, (zone) => inRefusal(() => cronSchedule('@daily', { timezone: zone })))
  return argument('--every', every, (pattern) =>
    inRefusal(() => cronSchedule(pattern, { timezone, missed, leaseDurationMs: ttl })),
  )
}

/** What the library says of an option, as of an argument. */
function inRefusal<T>(parse: () => T): T {
  try {
    return parse()
  } catch (error) {
    if (!isTenureError(error) || error.rule === undefined) throw error
    const [, meant] = /^Did you mean "(.*)"\?$/.exec(error.advice ?? '') ?? []
    throw new Refusal(error.rule.replace(/^it /, ''), meant)
  }
}
