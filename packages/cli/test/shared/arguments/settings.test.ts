import { Command } from 'commander'
import { readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { nearest } from '@tenure/internal/nearest'
import { describe, expect, test } from 'vitest'
import { limitsFrom } from '../../../../service/src/http/limit-options.ts'
import { parseAddress } from '../../../src/shared/arguments/addresses.ts'
import { runSettings } from '../../../src/run/settings.ts'
import { defaultData, serveSettings } from '../../../src/commands/serve/settings.ts'
import { readConfigFile } from '../../../src/shared/arguments/config-file.ts'
import { formatDuration, parseDuration } from '../../../src/shared/arguments/durations.ts'
import {
  addFlags,
  resolveSettings,
  flagOf,
  mistypedVariables,
  variableOf,
  type Sources,
} from '../../../src/shared/arguments/settings.ts'
import { temporaryFolder } from '../../temporary-folder.ts'

const from = { directory: '/' }
const nothing: Sources = { flags: {}, environment: {}, file: undefined, from }
const chosen = (sources: Partial<Sources>) => resolveSettings(serveSettings, { ...nothing, ...sources })
const file = (values: Record<string, unknown>) => ({ path: 'tenure.json', from, values })

describe('durations', () => {
  test.each([
    ['500ms', 500],
    ['15s', 15_000],
    ['1.5s', 1_500],
    ['5m', 300_000],
    ['1h', 3_600_000],
    ['596h', 2_145_600_000],
  ])('parseDuration reads %s as %d ms', (text, ms) => {
    expect(parseDuration(text)).toBe(ms)
  })

  test.each([
    ['15', '15s'],
    ['15sec', '15s'],
    ['15 S', '15s'],
    ['200 millis', '200ms'],
    ['2hours', '2h'],
    ['1d', '24h'],
    ['1.5 days', '36h'],
    ['1w', '168h'],
    ['1 hr', '1h'],
    // This is more than a timer accepts.
    ['25d', undefined],
    ['3 fortnights', undefined],
  ])('parseDuration rejects "%s" and suggests %s', (text, suggestion) => {
    expect(() => parseDuration(text)).toThrow(expect.objectContaining({ suggestion }))
  })

  test.each(['', 's', '-1s', '1e3s', '0s', '0.0001ms', '597h', '99999999999s', 'NaN', 'Infinity', '1s1s', '１s'])(
    'parseDuration rejects "%s"',
    (text) => {
      expect(() => parseDuration(text)).toThrow(/must be a duration/)
    },
  )

  test.each([1, 999, 1_000, 90_000, 3_600_000])(
    'formatDuration writes %d ms so that parseDuration reads it back',
    (ms) => {
      expect(parseDuration(formatDuration(ms))).toBe(ms)
    },
  )
})

describe('addresses', () => {
  test.each([
    ['127.0.0.1:7070', '127.0.0.1', 7070],
    ['[::1]:7070', '::1', 7070],
    [':7070', '::', 7070],
    ['localhost:0', 'localhost', 0],
    ['0.0.0.0:65535', '0.0.0.0', 65_535],
  ])('parseAddress reads %s as host %s and port %d', (text, host, port) => {
    expect(parseAddress(text)).toEqual({ host, port })
  })

  test.each([
    ['7070', '127.0.0.1:7070'],
    ['localhost', 'localhost:7070'],
    ['::1', '[::1]:7070'],
    ['http://127.0.0.1:80/', '127.0.0.1:80'],
    ['127.0.0.1:65536', undefined],
    ['[127.0.0.1]:80', undefined],
    ['a b:80', undefined],
    ['user@host:80', undefined],
    ['', undefined],
  ])('parseAddress rejects "%s" and suggests %s', (text, suggestion) => {
    expect(() => parseAddress(text)).toThrow(expect.objectContaining({ name: 'InvalidValue', suggestion }))
  })
})

describe('the sources of settings', () => {
  test('a flag overrides the environment, which overrides the file, which overrides the default', () => {
    const environment = { TENURE_MIN_TTL: '2s' }
    expect(chosen({}).minTtl).toBe(1_000)
    expect(chosen({ file: file({ minTtl: '3s' }) }).minTtl).toBe(3_000)
    expect(chosen({ file: file({ minTtl: '3s' }), environment }).minTtl).toBe(2_000)
    expect(chosen({ file: file({ minTtl: '3s' }), environment, flags: { minTtl: '1s' } }).minTtl).toBe(1_000)
    expect(chosen({ environment: { TENURE_JSON: 'true' }, flags: { json: false } }).json).toBe(false)
  })

  test('an empty variable counts as not set', () => {
    expect(chosen({ environment: { TENURE_MIN_TTL: '' } }).minTtl).toBe(1_000)
  })

  test('a list setting is an array in the file and comma-separated in the environment', () => {
    expect(chosen({ file: file({ allowedHost: ['a.example', 'b.example'] }) }).allowedHost).toHaveLength(2)
    expect(chosen({ environment: { TENURE_ALLOWED_HOST: 'a.example, b.example' } }).allowedHost).toHaveLength(2)
  })

  test('relative paths are relative to the file that contains them, or to the working directory', () => {
    const folder = temporaryFolder()
    const path = join(folder, 'tenure.json')
    writeFileSync(path, '{ "data": "elections" }')
    expect(chosen({ file: readConfigFile(path) }).data).toBe(join(folder, 'elections'))
    expect(chosen({ flags: { data: 'elections' }, from: { directory: '/srv' } }).data).toBe('/srv/elections')
    expect(defaultData).toBe(resolve('tenure-data'))
  })

  test('choose reports all problems at once, each with its source, its value and the rule', () => {
    const wrong = {
      flags: { minTtl: '15sec' },
      environment: { TENURE_MAX_GROUPS: '-1', TENURE_LOG_LEVEL: 'wran' },
      file: file({ json: 'yes', mintTtl: '1s', listen: {}, data: ['a', 'b'], colour: 1 }),
    }
    expect(() => chosen(wrong)).toThrow(
      expect.objectContaining({
        exitCode: 2,
        message: [
          'Unknown setting "mintTtl" in tenure.json. Did you mean "minTtl"?',
          `Unknown setting "colour" in tenure.json. Known settings: ${Object.keys(serveSettings).join(', ')}.`,
          '"listen" in tenure.json must be a string, a number, true or false, not {}.',
          '"data" in tenure.json must be a single value, not a list.',
          '--min-ttl must be a duration with a unit of ms, s, m or h, not "15sec". Did you mean "15s"?',
          'TENURE_MAX_GROUPS must be a whole number from 1 to 2147483647, not "-1".',
          'TENURE_LOG_LEVEL must be one of trace, debug, info, warn, error, fatal, silent, not "wran". Did you mean "warn"?',
          '"json" in tenure.json must be true or false, not "yes".',
        ].join('\n'),
      }),
    )
  })

  test.each(['__proto__', 'constructor', 'toString'])('a configuration file cannot set "%s"', (key) => {
    const values = JSON.parse(`{ "${key}": "1" }`) as Record<string, unknown>
    expect(() => chosen({ file: file(values) })).toThrow(/Unknown setting/)
  })

  test('mistypedVariables reports a variable that is one letter off, but not one that Kubernetes sets', () => {
    const environment = { TENURE_MIN_TLL: '1s', TENURE_PORT: 'tcp://10.0.0.1:7070', TENURE_SERVICE_HOST: '10.0.0.1' }
    expect(mistypedVariables(serveSettings, environment)).toEqual([
      'Unknown environment variable TENURE_MIN_TLL. Did you mean "TENURE_MIN_TTL"?',
    ])
  })

  test.each([
    ['run', runSettings],
    ['serve', serveSettings],
  ])('tenure %s does not warn about the token or the variables that "tenure run" sets', (_, table) => {
    const handedOn = { TENURE_TERM: '7', TENURE_ELECTION: 'jobs', TENURE_FENCE_FILE: '/f', TENURE_SCHEDULED_AT: '0' }
    expect(mistypedVariables(table, { TENURE_TOKEN: 'hunter2', TENURE_IDENTITY: 'a', ...handedOn })).toEqual([])
  })
})

describe('the table of settings', () => {
  test('every setting has a flag, a variable and a key that differ only in spelling', () => {
    expect([flagOf('tlsClientCa'), variableOf('tlsClientCa')]).toEqual(['--tls-client-ca', 'TENURE_TLS_CLIENT_CA'])
    const command = new Command()
    addFlags(command, serveSettings)
    for (const [key, { withoutFlag, placeholder }] of Object.entries(serveSettings)) {
      const option = command.options.find(({ long }) => long === flagOf(key))
      expect(option === undefined, key).toBe(withoutFlag)
      expect(option?.attributeName() ?? key).toBe(key)
      expect(option?.required ?? placeholder !== undefined, key).toBe(placeholder !== undefined)
    }
  })

  test('the table of settings shows the defaults of the service', () => {
    const { headersTimeoutMs, requestTimeoutMs, answerTimeoutMs, unidentifiedTimeoutMs, maxGroupBytes, ...counts } =
      limitsFrom(undefined, true)
    const shown = (key: string) => (serveSettings as Record<string, { shownDefault?: string }>)[key]?.shownDefault
    expect(maxGroupBytes).toBeGreaterThan(2 ** 20)
    expect(shown('maxGroupBytes')).toBe('half of the heap')
    for (const [key, limit] of Object.entries(counts)) expect(shown(key), key).toBe(String(limit))
    const durations = {
      unidentifiedTimeout: unidentifiedTimeoutMs,
      headersTimeout: headersTimeoutMs,
      requestTimeout: requestTimeoutMs,
      answerTimeout: answerTimeoutMs,
    }
    for (const [key, ms] of Object.entries(durations)) expect(shown(key), key).toBe(formatDuration(ms))
  })
})

test('packages/cli/README.md lists exactly the settings of tenure serve', () => {
  const rows = Object.entries(serveSettings).map(([key, { help, placeholder, shownDefault, withoutFlag }]) => {
    const value = placeholder === undefined ? '' : ` ${placeholder.toUpperCase()}`
    const flag = withoutFlag ? '' : ` \`${flagOf(key)}${value}\``
    const fallback = shownDefault ?? (placeholder === undefined ? 'off' : '')
    return `| \`${key}\` |${flag} | \`${variableOf(key)}\` | ${fallback} | ${help} |`.replaceAll('  ', ' ')
  })
  const readme = readFileSync(join(import.meta.dirname, '../../../README.md'), 'utf8')
  expect(readme.split('\n').filter((line) => /^\| `[a-z]\w*` \|.*TENURE_/.test(line))).toEqual(rows)
})

test('nearest suggests nothing for a very long word', () => {
  expect(nearest('x'.repeat(1e6), ['listen'])).toBeUndefined()
})
