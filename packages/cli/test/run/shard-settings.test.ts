import { expect, test } from 'vitest'
import { checkRunSettings, runSettings } from '../../src/run/settings.ts'
import { CommandError } from '../../src/shared/arguments/errors.ts'
import { flagOf, resolveSettings } from '../../src/shared/arguments/settings.ts'

/** Returns the problems with these flags and variables. */
function problemsOf(flags: Readonly<Record<string, unknown>>, environment: Record<string, string> = {}): string[] {
  const settings = resolveSettings(runSettings, { flags, environment, file: undefined, from: { directory: '/' } })
  try {
    checkRunSettings(settings, flags)
    return []
  } catch (error) {
    if (!(error instanceof CommandError)) throw error
    expect(error.exitCode).toBe(2)
    return error.message.split('\n')
  }
}

const refused: Readonly<Record<string, unknown>> = {
  once: true,
  wait: '30s',
  hold: true,
  every: '@hourly',
  timezone: 'Europe/Zurich',
  missed: 'run-once',
  atMostOncePer: '1h',
  maxRuntime: '1h',
  eligible: 'true',
  eligibleFile: '/run/ready',
  priority: 'low',
  present: true,
  generation: '3',
  progressFile: '/run/progress',
  progressTimeout: '1m',
}

test.each(Object.entries(refused))('--shards refuses %s with one error that says why', (name, value) => {
  expect(problemsOf({ shards: 'imports:6', [name]: value })).toEqual([
    expect.stringMatching(new RegExp(`^${flagOf(name)} .*, so it cannot be combined with --shards\\.$`)) as string,
  ])
})

test('each option of tenure run either applies with --shards or is refused', () => {
  const applying = ['tokenFile', 'caFile', 'certFile', 'keyFile', 'store', 'shards', 'maxMembers', 'ttl', 'grace']
  const further = ['drainTimeout', 'identity', 'metadata', 'restart', 'restartDelay', 'storeTimeout', 'passSecrets']
  const shown = ['metrics', 'allowedHost', 'quiet', 'json']
  expect(Object.keys(runSettings).toSorted()).toEqual(
    [...applying, ...further, ...shown, ...Object.keys(refused)].toSorted(),
  )
})

test('--shards lists all settings that it refuses at once, and those that the environment sets', () => {
  expect(problemsOf({ shards: 'imports:6', once: true }, { TENURE_ELIGIBLE: 'true' })).toHaveLength(2)
  // These have no effect alone, and may be meant for the command.
  expect(problemsOf({ shards: 'imports:6' }, { TENURE_GENERATION: '3', TENURE_TIMEZONE: 'UTC' })).toEqual([])
})

test('--shards comes from the environment too, and applies with the other options', () => {
  const flags = { maxMembers: '40', restart: 'on-failure', grace: '1s', json: true }
  expect(problemsOf(flags, { TENURE_SHARDS: 'imports:512' })).toEqual([])
})

test.each(['imports', 'imports:', ':6', 'imports:0', 'imports:513', 'imports:1.5', 'imports:6 ', 'a\nb:6'])(
  '--shards refuses %j',
  (text) => {
    expect(() => problemsOf({ shards: text })).toThrow(/--shards must be GROUP:N/)
  },
)

test('--max-members and --json are refused without --shards', () => {
  expect(problemsOf({ maxMembers: '40', json: true })).toEqual([
    '--max-members requires --shards.',
    '--json requires --shards.',
  ])
})
