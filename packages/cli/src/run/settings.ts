import { formatDuration, parseDuration } from '../shared/arguments/durations.ts'
import { usageError } from '../shared/arguments/errors.ts'
import { setting, toggle, type Chosen } from '../shared/arguments/settings.ts'
import {
  allowedHost,
  campaignedStoreSettings,
  identity,
  metadata,
  metrics,
  ttl,
} from '../shared/arguments/store-settings.ts'
import { oneOf, textOf } from '../shared/arguments/values.ts'

export const restartPolicies = ['never', 'on-failure', 'always'] as const
export const missedPolicies = ['skip', 'run-once'] as const

/** All that can be set for `tenure run`. Flags, variables and help follow. */
export const runSettings = {
  ...campaignedStoreSettings,
  ttl,
  grace: setting(
    {
      placeholder: 'duration',
      help: 'from SIGTERM to SIGKILL when leadership is lost; at most a fifth of the ttl',
      shownDefault: 'a fifth of the ttl',
    },
    parseDuration,
  ),
  drainTimeout: setting(
    { placeholder: 'duration', help: 'from SIGTERM to SIGKILL when tenure is stopped', shownDefault: '30s' },
    parseDuration,
    30_000,
  ),
  identity: {
    ...identity,
    shownDefault: 'the node of the token, else the name of this host, the process id and a random part',
  },
  metadata,
  once: toggle('run it once and end with its exit code, or with 75 if leadership was lost'),
  restart: setting(
    {
      placeholder: 'when',
      help: 'when to run the command again after its exit: never (end with its code), on-failure, always',
      shownDefault: 'always; never with --once',
    },
    oneOf(restartPolicies),
  ),
  restartDelay: setting(
    { placeholder: 'duration', help: 'the pause before that; doubles each time, up to 1m', shownDefault: '1s' },
    parseDuration,
    1_000,
  ),
  hold: toggle('keep the lease after the command has exited, instead of letting others lead'),
  every: setting({ placeholder: 'cron', help: 'run it at these times, once in the whole fleet' }, textOf),
  timezone: setting({ placeholder: 'name', help: 'the time zone of --every', shownDefault: 'UTC' }, textOf, 'UTC'),
  missed: setting(
    {
      placeholder: 'how',
      help: 'what to do about times of --every when nobody could run it: skip, or run-once for all of them',
      shownDefault: 'skip',
    },
    oneOf(missedPolicies),
    'skip' as const,
  ),
  atMostOncePer: setting(
    { placeholder: 'duration', help: 'run it unless the fleet has within this time, and end either way' },
    parseDuration,
  ),
  maxRuntime: setting(
    {
      placeholder: 'duration',
      help: 'end a run that takes longer, with SIGTERM and after the grace SIGKILL; for jobs and --once',
    },
    parseDuration,
  ),
  storeTimeout: setting(
    {
      placeholder: 'duration',
      help: 'give up with 69 if the store has not answered, or takes no write, for this long',
      shownDefault: '30s',
    },
    parseDuration,
    30_000,
  ),
  passSecrets: toggle(
    'let the command have TENURE_TOKEN, TENURE_STORE_PASSWORD, TENURE_SENTINEL_PASSWORD, and a TENURE_STORE or TENURE_URL that holds a password',
  ),
  metrics,
  allowedHost,
  quiet: toggle('report only what goes wrong'),
}

export type RunSettings = Chosen<typeof runSettings>

/** Checks settings that depend on each other. `flags` are those of this command; the environment may be meant for others. */
export function checkRunSettings(settings: RunSettings, flags: Readonly<Record<string, unknown>>): void {
  const { once, restart, hold, every, atMostOncePer, restartDelay } = settings
  const problems: string[] = []
  for (const name of ['timezone', 'missed']) {
    if (flags[name] !== undefined && every === undefined) problems.push(`--${name} means nothing without --every.`)
  }
  if (flags['maxRuntime'] !== undefined && !once && every === undefined && atMostOncePer === undefined) {
    problems.push('--max-runtime is for jobs: --every, --at-most-once-per or --once.')
  }
  if (once && restart === 'always')
    problems.push('--once ends at the latest after a success, so --restart must not be always.')
  if (once && hold) problems.push('--once ends with the command, so there is nothing to --hold.')
  if (restartDelay > 60_000)
    problems.push(`--restart-delay is ${formatDuration(restartDelay)}, but must be at most 1m.`)
  for (const [flag, given] of Object.entries({ '--every': every, '--at-most-once-per': atMostOncePer })) {
    if (given === undefined) continue
    if (once) problems.push(`${flag} decides when the command runs, so --once does not go with it.`)
    if (restart !== undefined) problems.push(`${flag} decides when the command runs, so --restart does not go with it.`)
    if (hold) problems.push(`${flag} decides when the command runs, so --hold does not go with it.`)
  }
  if (every !== undefined && atMostOncePer !== undefined) problems.push('--every and --at-most-once-per: choose one.')
  if (problems.length > 0) throw usageError(problems)
}
