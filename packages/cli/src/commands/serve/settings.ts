import { resolve } from 'node:path'
import { parseAddress } from '../../shared/arguments/addresses.ts'
import { formatDuration, parseDuration } from '../../shared/arguments/durations.ts'
import { usageError } from '../../shared/arguments/errors.ts'
import { commaSetting, listSetting, setting, toggle, type SettingValues } from '../../shared/arguments/settings.ts'
import { countOf, fileOf, hostOf, oneOf, pathOf, textOf } from '../../shared/arguments/values.ts'

/** The end of the help for limits that are counted per subject. */
const unlimited = '0 means no limit, which is the default without authentication'
export const logLevels = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const

/**
 * All settings of `tenure serve`, keyed by their names in the configuration file. Flags, environment variables and help
 * derive from this table.
 */
export const serveSettings = {
  listen: setting(
    {
      placeholder: 'address',
      help: 'the address to listen on; :7070 is every address',
      shownDefault: '127.0.0.1:7070',
    },
    parseAddress,
    { host: '127.0.0.1', port: 7070 },
  ),
  data: setting(
    {
      placeholder: 'directory',
      help: 'the directory for all data; one process at a time',
      shownDefault: './tenure-data',
    },
    pathOf,
  ),
  store: setting(
    {
      placeholder: 'url',
      help: 'instead of --data: the etcd or PostgreSQL that all replicas share',
    },
    textOf,
  ),
  advertise: setting(
    { placeholder: 'url', help: 'with --store: the URL at which other replicas reach this one; not for clients' },
    textOf,
  ),
  advertiseCa: setting(
    { placeholder: 'file', help: 'the CA certificates of the other replicas, PEM; default: those of Node.js' },
    fileOf,
  ),
  minTtl: setting(
    { placeholder: 'duration', help: 'the shortest allowed lease', shownDefault: '1s' },
    parseDuration,
    1_000,
  ),
  maxTtl: setting(
    { placeholder: 'duration', help: 'the longest allowed lease', shownDefault: '1h' },
    parseDuration,
    3_600_000,
  ),
  explicitGroups: toggle('allow only elections that an administrator has defined; a campaign does not create one'),
  maxGroups: setting({ placeholder: 'number', help: 'the maximum number of elections' }, countOf, 2_000_000),
  maxWatchers: setting(
    { placeholder: 'number', help: 'the maximum number of concurrent watches; a watch counts once per 50 elections' },
    countOf,
    20_000,
  ),
  metricsGroups: commaSetting(
    {
      placeholder: 'ids',
      help: "elections with their own metrics, such as 'payments,reports-*'; at most 1000",
    },
    textOf,
  ),
  allowNetworkFilesystem: toggle('allow data on a network or FUSE file system whose locks hold for all hosts'),
  tlsCert: setting({ placeholder: 'file', help: 'the server certificate, PEM' }, fileOf),
  tlsKey: setting({ placeholder: 'file', help: 'the private key of that certificate, PEM' }, fileOf),
  tlsClientCa: setting({ placeholder: 'file', help: 'the CA certificates for client certificates, PEM' }, fileOf),
  certificateRights: setting({ placeholder: 'file', help: 'the rights of each client certificate, JSON' }, fileOf),
  tokenKey: setting(
    { placeholder: 'file', help: 'the public key (FILE.pub) for tokens from "tenure token sign"' },
    fileOf,
  ),
  jwtKeys: setting({ placeholder: 'file', help: 'the public keys of the token issuer, JWKS or PEM' }, fileOf),
  jwtIssuer: setting({ placeholder: 'text', help: 'the required "iss" of a token' }, textOf),
  jwtAudience: setting({ placeholder: 'text', help: 'the required "aud" of a token' }, textOf),
  jwtMaxLifetime: advancedSetting(
    'duration',
    'the longest allowed time from "iat" to "exp" of a token',
    '24h',
    parseDuration,
  ),
  jwtClockTolerance: advancedSetting(
    'duration',
    'the tolerated clock difference to the issuer, at most 30s',
    '5s',
    parseDuration,
  ),
  allowedHost: listSetting(
    {
      placeholder: 'name',
      help: 'a host name to accept in requests; if set, only these and localhost are accepted; may be repeated',
    },
    hostOf,
  ),
  maxConnections: advancedSetting('number', 'concurrent connections', '30000', countOf),
  maxConnectionsPerAddress: advancedSetting('number', 'concurrent connections from one address', '20000', countOf),
  maxUnidentifiedPerAddress: advancedSetting(
    'number',
    'concurrent unauthenticated connections from one address',
    '2000',
    countOf,
  ),
  unidentifiedTimeout: advancedSetting(
    'duration',
    'how long an unauthenticated connection may be idle',
    '5s',
    parseDuration,
  ),
  headersTimeout: advancedSetting(
    'duration',
    'how long the headers of a request may take to arrive',
    '10s',
    parseDuration,
  ),
  requestTimeout: advancedSetting('duration', 'how long a request may take to arrive', '30s', parseDuration),
  answerTimeout: advancedSetting('duration', 'how long an answer may stay unread', '1m', parseDuration),
  maxWaiting: advancedSetting('number', 'campaigns waiting in a queue at the same time', '20000', countOf),
  maxBodyBytes: advancedSetting('number', 'total bytes of request bodies above 8 KB in flight', '67108864', countOf),
  maxAnswerBytes: advancedSetting('number', 'total bytes of unread answers above 8 KB', '67108864', countOf),
  requestsPerSecond: advancedSetting(
    'number',
    `requests per subject except renewals, where 10 elections or 4 KB of a request count as one; ${unlimited}`,
    '1000',
    limitOf,
  ),
  renewalsPerSecond: advancedSetting(
    'number',
    `renewals and resignations per subject, where 128 bytes count as one; ${unlimited}`,
    '50000',
    limitOf,
  ),
  maxGroupBytes: advancedSetting(
    'number',
    'approximate bytes of memory for all elections',
    'half of the heap',
    countOf,
  ),
  newGroupsPerHour: advancedSetting(
    'number',
    `elections created by a subject's campaigns; ${unlimited}`,
    '1000',
    limitOf,
  ),
  groupBytesPerSubject: advancedSetting(
    'number',
    `bytes of memory for the elections of a subject, at least 1 KB each; ${unlimited}`,
    '33554432',
    limitOf,
  ),
  watchesPerSubject: advancedSetting(
    'number',
    `concurrent watches per subject, where 50 elections of a watch count as one; ${unlimited}`,
    '2000',
    limitOf,
  ),
  deliveriesPerSecond: advancedSetting(
    'number',
    `events that the watches of a subject receive or its renewals cause; ${unlimited}`,
    '10000',
    limitOf,
  ),
  waitingPerSubject: advancedSetting('number', `waiting campaigns per subject; ${unlimited}`, '2000', limitOf),
  logLevel: setting({ placeholder: 'level', help: logLevels.join(', ') }, oneOf(logLevels), 'info'),
  json: toggle('log as JSON, one object per line'),
  welcome: toggle('print commands to try', { fallback: process.stdout.isTTY, shownDefault: 'on a terminal' }),
}

export type ServeSettings = SettingValues<typeof serveSettings>

/** The default data directory. */
export const defaultData = resolve('tenure-data')

/** Checks settings that depend on each other. */
export function checkServeSettings(settings: ServeSettings): void {
  const { data, store, advertise, advertiseCa, tokenKey } = settings
  const { minTtl, maxTtl, tlsCert, tlsKey, tlsClientCa, certificateRights, jwtKeys, jwtIssuer, jwtAudience } = settings
  const problems: string[] = []
  const need = (what: string, given: unknown, needed: string, present: unknown) => {
    if (given !== undefined && present === undefined) problems.push(`${what} also requires ${needed}.`)
  }
  if (minTtl > maxTtl)
    problems.push(
      `--min-ttl (${formatDuration(minTtl)}) must not be longer than --max-ttl (${formatDuration(maxTtl)}).`,
    )
  if (data !== undefined && store !== undefined) problems.push('--data and --store are mutually exclusive.')
  need('--store', store, '--advertise', advertise)
  need('--advertise', advertise, '--store', store)
  need('--advertise-ca', advertiseCa, '--advertise', advertise)
  need('--tls-cert', tlsCert, '--tls-key', tlsKey)
  need('--tls-key', tlsKey, '--tls-cert', tlsCert)
  need('--tls-client-ca', tlsClientCa, '--tls-cert', tlsCert)
  need('--tls-client-ca', tlsClientCa, '--certificate-rights', certificateRights)
  need('--certificate-rights', certificateRights, '--tls-client-ca', tlsClientCa)
  if (tokenKey !== undefined && jwtKeys !== undefined)
    problems.push('--token-key and --jwt-keys are mutually exclusive.')
  need('--jwt-keys', jwtKeys, '--jwt-issuer', jwtIssuer)
  need('--jwt-keys', jwtKeys, '--jwt-audience', jwtAudience)
  need('--jwt-issuer', jwtIssuer, '--jwt-keys', jwtKeys)
  need('--jwt-audience', jwtAudience, '--jwt-keys', jwtKeys)
  if (problems.length > 0) throw usageError(problems)
}

/** A rarely needed setting. It has no flag, and the service knows its default. */
function advancedSetting<T>(placeholder: string, help: string, shownDefault: string, parse: (text: string) => T) {
  return setting({ placeholder, help, shownDefault, withoutFlag: true }, parse)
}

function limitOf(text: string): number {
  return text === '0' ? 0 : countOf(text)
}
