import { canSeeProcesses } from '@tenure/internal/process-status'
import { isTenureError, type ElectionMetrics, type LeaseStore, type Metadata } from 'tenure'
import { cronSchedule, type JobSchedule } from 'tenure/jobs'
import { usageError } from '../shared/arguments/errors.ts'
import { InvalidValue } from '../shared/arguments/invalid-value.ts'
import { parseArgument } from '../shared/arguments/settings.ts'
import { serveMetrics } from '../shared/metrics-server.ts'
import type { RunningServer } from '../shared/small-server.ts'
import { nodeFromToken, openChosenStore, storeEnvironment } from '../shared/store.ts'
import type { Mode } from './runner.ts'
import { atMostOncePer, scheduled, service } from './modes.ts'
import type { RunPreference } from './preference.ts'
import type { RestartRules } from './restart.ts'
import type { RunSettings } from './settings.ts'
import type { ShardGroup } from './shard-settings.ts'
import type { Supervision } from './supervision.ts'
import { divideLease, type RunTimings } from './timings.ts'

/** What `tenure run` was asked for, under an election or for shards. */
export interface CommandPlan {
  readonly identity: string | undefined
  /** Visible to other candidates while this one leads, or owns shards. */
  readonly metadata: Metadata | undefined
  readonly command: string
  readonly args: readonly string[]
  readonly timings: RunTimings
  readonly drainTimeoutMs: number
  readonly storeTimeoutMs: number
  /** Whether the command gets the credentials of the store. */
  readonly passesSecrets: boolean
  /** Whether to report only problems. */
  readonly isQuiet: boolean
  openStore(supervision: Supervision): Promise<LeaseStore>
  /** Starts the metrics server. Resolves to undefined if --metrics is not set. */
  showMetrics(metrics: ElectionMetrics): Promise<RunningServer | undefined>
}

/** A plan for an election. */
export interface Plan extends CommandPlan {
  readonly election: string
  readonly mode: Mode
  /** How long to wait while another machine leads. Undefined for no limit. */
  readonly waitMs: number | undefined
  readonly preference: RunPreference
  /** The time limit of a run. Undefined if there is none. */
  readonly maxRuntimeMs: number | undefined
}

/** A plan for shards. */
export interface ShardPlan extends CommandPlan, ShardGroup {
  /** Undefined for the library's default. */
  readonly maxMembers: number | undefined
  readonly rules: RestartRules
}

/** Builds the plan for an election. Rejects settings that cannot work before anything is started or connected. */
export function planOf(election: string, words: readonly string[], settings: RunSettings): Plan {
  return {
    ...commandPlanOf(words, settings),
    election,
    mode: modeOf(settings),
    // Without --once it is ignored: the environment variable may be meant for another command.
    waitMs: settings.once ? settings.wait : undefined,
    preference: preferenceOf(settings),
    maxRuntimeMs: hasTimeLimit(settings) ? settings.maxRuntime : undefined,
  }
}

/** Builds the plan for shards, in the same way. */
export function shardPlanOf(group: ShardGroup, words: readonly string[], settings: RunSettings): ShardPlan {
  const { maxMembers, restart = 'always', restartDelay: firstDelayMs } = settings
  return { ...commandPlanOf(words, settings), ...group, maxMembers, rules: { policy: restart, firstDelayMs } }
}

function commandPlanOf(words: readonly string[], settings: RunSettings): CommandPlan {
  if (process.platform === 'win32')
    throw usageError(['tenure run does not work on Windows, which has no process groups.'])
  const [command = '', ...args] = words
  return {
    identity: settings.identity ?? nodeFromToken(settings.store, settings),
    metadata: settings.metadata,
    command,
    args,
    timings: divideLease(settings.ttl, settings.grace),
    drainTimeoutMs: settings.drainTimeout,
    storeTimeoutMs: settings.storeTimeout,
    passesSecrets: settings.passSecrets,
    isQuiet: settings.quiet,
    openStore: (supervision) => openRunStore(settings, supervision),
    showMetrics: (metrics) => serveMetrics('command', settings, metrics),
  }
}

function preferenceOf(settings: RunSettings): RunPreference {
  const { eligible, eligibleFile, priority, present, generation, progressFile, progressTimeout } = settings
  const isFollowed = progressFile !== undefined && progressTimeout !== undefined
  const progressTimeoutMs = isFollowed ? progressTimeout : undefined
  // Without --present, a generation is ignored instead of rejected: the environment variable may be meant for the
  // command.
  const wanted = { present, generation: present ? generation : undefined }
  return { eligible, eligibleFile, priority, ...wanted, progressFile, progressTimeoutMs }
}

/** Whether each run of the command is expected to end, so that it can have a time limit. */
function hasTimeLimit({ once, every, atMostOncePer: intervalMs }: RunSettings): boolean {
  return once || every !== undefined || intervalMs !== undefined
}

/**
 * Opens the chosen store. In the file store, a standby takes over as soon as the holder's process is dead. Here the
 * holder counts as dead only when both this process and the supervisor are gone. So a standby never overtakes a command
 * that is still being killed.
 */
async function openRunStore(settings: RunSettings, supervision: Supervision): Promise<LeaseStore> {
  const store = await openChosenStore(settings, {
    signOfLife: (attempt, path) => (path === undefined ? undefined : supervision.openLivenessSocket(attempt, path)),
  })
  const { store: url = '' } = settings
  if (canBeGuarded(url, store)) supervision.guard(url, storeEnvironment(settings))
  if (store.terms) return store
  if (settings.shards) {
    throw usageError([
      'This store keeps no record between leaders, so it cannot record who owns which shard. Use another store for --shards.',
    ])
  }
  const keepsRuns = settings.every !== undefined || settings.atMostOncePer !== undefined
  if (!keepsRuns) return store
  throw usageError([
    'This store keeps no record between leaders, so it cannot record runs. Use another store for --every and --at-most-once-per.',
  ])
}

/** Whether a supervisor can release the lease of this process. The liveness socket of a file store is faster. */
function canBeGuarded(url: string, { terms }: LeaseStore): boolean {
  return terms && canSeeProcesses() && !/^(?:file|memory):/i.test(url)
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
  // Validated separately, so that the message names the invalid option.
  parseArgument('--timezone', timezone, (zone) => inRefusal(() => cronSchedule('@daily', { timezone: zone })))
  return parseArgument('--every', every, (pattern) =>
    inRefusal(() => cronSchedule(pattern, { timezone, missed, leaseDurationMs: ttl })),
  )
}

/** Turns a library error about an option into one about a command-line argument. */
function inRefusal<T>(parse: () => T): T {
  try {
    return parse()
  } catch (error) {
    if (!isTenureError(error) || error.rule === undefined) throw error
    const [, meant] = /^Did you mean "(.*)"\?$/.exec(error.advice ?? '') ?? []
    throw new InvalidValue(error.rule.replace(/^it /, ''), meant)
  }
}
