import { formatDuration, parseDuration } from '../shared/arguments/durations.ts'
import { usageError } from '../shared/arguments/errors.ts'
import { flagOf, setting, toggle, type SettingValues } from '../shared/arguments/settings.ts'
import {
  allowedHost,
  candidateStoreSettings,
  identity,
  metadata,
  metrics,
  ttl,
} from '../shared/arguments/store-settings.ts'
import { generationOf, oneOf, pathOf, textOf } from '../shared/arguments/values.ts'
import { memberCountOf, refusedWithShards, shardsOf } from './shard-settings.ts'

const priorities = ['normal', 'low', 'lowest'] as const
export const restartPolicies = ['never', 'on-failure', 'always'] as const
export const missedPolicies = ['skip', 'run-once'] as const

/** All settings of `tenure run`. Flags, environment variables and help derive from this table. */
export const runSettings = {
  ...candidateStoreSettings,
  shards: setting(
    {
      placeholder: 'group:n',
      help: 'instead of an election: share N shards with all machines that name this group, and run the command once for each shard that this machine owns',
    },
    shardsOf,
  ),
  maxMembers: setting(
    {
      placeholder: 'number',
      help: 'with --shards: how many machines can share them, up to 100; the same on all of them',
      shownDefault: '32',
    },
    memberCountOf,
  ),
  ttl,
  grace: setting(
    {
      placeholder: 'duration',
      help: 'time from SIGTERM to SIGKILL when leadership is lost; at most a fifth of --ttl',
      shownDefault: 'a fifth of --ttl',
    },
    parseDuration,
  ),
  drainTimeout: setting(
    {
      placeholder: 'duration',
      help: 'time from SIGTERM to SIGKILL when tenure is stopped, or a shard moves',
      shownDefault: '30s',
    },
    parseDuration,
    30_000,
  ),
  identity: {
    ...identity,
    shownDefault: 'the node of the token, else the host name, the process id and a random part',
  },
  metadata,
  eligible: setting(
    {
      placeholder: 'command',
      help: 'lead only while this shell command exits with 0; it runs every retry interval, and may take that long',
    },
    textOf,
  ),
  eligibleFile: setting({ placeholder: 'path', help: 'lead only while this file exists' }, pathOf),
  priority: setting(
    {
      placeholder: 'priority',
      help: 'how soon to take over, compared with the others: normal, low, lowest',
      shownDefault: 'normal',
    },
    oneOf(priorities),
    'normal' as const,
  ),
  present: toggle('take a seat among the members of the election, so that tenure members shows this machine'),
  generation: setting(
    {
      placeholder: 'number',
      help: 'the number of the rollout: leave the lease to present members of a higher one; needs --present',
    },
    generationOf,
  ),
  progressFile: setting(
    { placeholder: 'path', help: 'a file that the command touches while it makes progress' },
    pathOf,
  ),
  progressTimeout: setting(
    { placeholder: 'duration', help: 'step down if --progress-file was not touched for this long' },
    parseDuration,
  ),
  once: toggle('run the command once and exit with its exit code, or with 75 if leadership was lost'),
  wait: setting(
    {
      placeholder: 'duration',
      help: 'with --once: how long to wait while another machine leads, then exit with 75; --no-wait tries only once',
      shownDefault: 'without a limit',
      negationHelp: 'with --once: exit with 75 if another machine leads',
    },
    waitOf,
  ),
  restart: setting(
    {
      placeholder: 'when',
      help: 'when to restart the command after it exits: never (exit with its code; with --shards, leave its shard without a command), on-failure, always',
      shownDefault: 'always; never with --once',
    },
    oneOf(restartPolicies),
  ),
  restartDelay: setting(
    { placeholder: 'duration', help: 'the delay before a restart; doubles each time, up to 1m', shownDefault: '1s' },
    parseDuration,
    1_000,
  ),
  hold: toggle('keep the lease after the command exits, instead of releasing it'),
  every: setting({ placeholder: 'cron', help: 'run the command at these times, once in the whole fleet' }, textOf),
  timezone: setting({ placeholder: 'name', help: 'the time zone of --every', shownDefault: 'UTC' }, textOf, 'UTC'),
  missed: setting(
    {
      placeholder: 'how',
      help: 'what to do about missed times of --every: skip, or run-once to make up for all of them with one run',
      shownDefault: 'skip',
    },
    oneOf(missedPolicies),
    'skip' as const,
  ),
  atMostOncePer: setting(
    { placeholder: 'duration', help: 'run the command unless the fleet ran it within this time; exit in both cases' },
    parseDuration,
  ),
  maxRuntime: setting(
    {
      placeholder: 'duration',
      help: 'end a longer run with SIGTERM, then SIGKILL after --grace; for jobs and --once',
    },
    parseDuration,
  ),
  storeTimeout: setting(
    {
      placeholder: 'duration',
      help: 'exit with 69 if the store has not answered, or has accepted no write, for this long',
      shownDefault: '30s',
    },
    parseDuration,
    30_000,
  ),
  passSecrets: toggle(
    'pass TENURE_TOKEN, TENURE_STORE_PASSWORD, TENURE_SENTINEL_PASSWORD, and a TENURE_STORE or TENURE_URL that contains a password to the command',
  ),
  metrics,
  allowedHost,
  quiet: toggle('report only problems'),
  json: toggle('with --shards: report as JSON, one object per line'),
}

/** Parses the value of `--wait`. It is `false` for `--no-wait`. */
function waitOf(text: string): number {
  return text === 'false' || text === '0s' ? 0 : parseDuration(text)
}

export type RunSettings = SettingValues<typeof runSettings>

/**
 * Checks settings that depend on each other. Conflicts are reported for `flags` of this command only, because the
 * environment may be meant for other commands.
 */
export function checkRunSettings(settings: RunSettings, flags: Readonly<Record<string, unknown>>): void {
  const { once, wait, restart, hold, every, atMostOncePer, restartDelay, shards } = settings
  const problems: string[] = []
  if (restartDelay > 60_000) problems.push(`--restart-delay must be at most 1m, not ${formatDuration(restartDelay)}.`)
  if (shards) {
    problems.push(...refusedWithShards(settings, runSettings, flags))
    if (problems.length > 0) throw usageError(problems)
    return
  }
  for (const name of ['maxMembers', 'json']) {
    if (flags[name] !== undefined && flags[name] !== false) problems.push(`${flagOf(name)} requires --shards.`)
  }
  for (const name of ['timezone', 'missed']) {
    if (flags[name] !== undefined && every === undefined) problems.push(`--${name} requires --every.`)
  }
  if (flags['maxRuntime'] !== undefined && !once && every === undefined && atMostOncePer === undefined) {
    problems.push('--max-runtime requires --every, --at-most-once-per or --once.')
  }
  for (const [name, other] of [
    ['progressFile', 'progressTimeout'],
    ['progressTimeout', 'progressFile'],
  ] as const) {
    if (flags[name] !== undefined && settings[other] === undefined) {
      problems.push(`${flagOf(name)} requires ${flagOf(other)}.`)
    }
  }
  const waitFlag = wait === 0 ? '--no-wait' : '--wait'
  if (flags['wait'] !== undefined && !once) problems.push(`${waitFlag} requires --once.`)
  if (wait !== undefined && once && restart === 'on-failure') {
    problems.push(`${waitFlag} limits the wait for one run, so --restart cannot be on-failure.`)
  }
  if (flags['generation'] !== undefined && !settings.present) problems.push('--generation requires --present.')
  if (once && restart === 'always')
    problems.push('--once exits after the first success, so --restart cannot be always.')
  if (once && hold) problems.push('--once exits with the command, so it cannot be combined with --hold.')
  for (const [flag, given] of Object.entries({ '--every': every, '--at-most-once-per': atMostOncePer })) {
    if (given === undefined) continue
    if (once) problems.push(`${flag} decides when the command runs, so it cannot be combined with --once.`)
    if (restart !== undefined)
      problems.push(`${flag} decides when the command runs, so it cannot be combined with --restart.`)
    if (hold) problems.push(`${flag} decides when the command runs, so it cannot be combined with --hold.`)
  }
  if (every !== undefined && atMostOncePer !== undefined)
    problems.push('--every and --at-most-once-per are mutually exclusive.')
  if (problems.length > 0) throw usageError(problems)
}
