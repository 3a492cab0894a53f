import { resolve } from 'node:path'
import { parseAddress } from '../shared/arguments/addresses.ts'
import { formatDuration, parseDuration } from '../shared/arguments/durations.ts'
import { usageError } from '../shared/arguments/errors.ts'
import { commaSetting, listSetting, setting, toggle, type Chosen } from '../shared/arguments/settings.ts'
import { countOf, fileOf, hostOf, oneOf, pathOf, textOf } from '../shared/arguments/values.ts'

/** For what is counted by subject. */
const unlimited = '0 is no limit, and the default without authentication'
export const logLevels = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const

/** All that can be set for `tenure serve`, by the names in its configuration file. Flags, variables and help follow. */
export const serveSettings = {
  listen: setting(
    { placeholder: 'address', help: 'where to listen; :7070 is every address', shownDefault: '127.0.0.1:7070' },
    parseAddress,
    { host: '127.0.0.1', port: 7070 },
  ),
  data: setting(
    {
      placeholder: 'directory',
      help: 'where everything is kept; one process at a time',
      shownDefault: './tenure-data',
    },
    pathOf,
  ),
  store: setting(
    {
      placeholder: 'url',
      help: 'instead of --data: the etcd or PostgreSQL that this and other replicas keep everything on',
    },
    textOf,
  ),
  advertise: setting(
    { placeholder: 'url', help: 'with --store: where the other replicas reach this one; not for clients' },
    textOf,
  ),
  advertiseCa: setting(
    { placeholder: 'file', help: 'the authorities of the other replicas, PEM; default: those that Node.js knows' },
    fileOf,
  ),
  minTtl: setting({ placeholder: 'duration', help: 'the shortest lease', shownDefault: '1s' }, parseDuration, 1_000),
  maxTtl: setting({ placeholder: 'duration', help: 'the longest lease', shownDefault: '1h' }, parseDuration, 3_600_000),
  explicitGroups: toggle('only groups that an administrator defined; a campaign makes no new one'),
  maxGroups: setting({ placeholder: 'number', help: 'how many groups are kept' }, countOf, 2_000_000),
  maxWatchers: setting(
    { placeholder: 'number', help: 'how many may watch at once; 50 groups count as one' },
    countOf,
    20_000,
  ),
  metricsGroups: commaSetting(
    {
      placeholder: 'ids',
      help: "groups with metrics of their own, such as 'payments,reports-*'; at most 1000 groups have them",
    },
    textOf,
  ),
  afterRestore: toggle(
    'deprecated: use "tenure restore". The data come from a backup: skip terms, once for a directory',
  ),
  allowNetworkFilesystem: toggle('keep the data on a network or FUSE file system, whose locks hold for all hosts'),
  tlsCert: setting({ placeholder: 'file', help: 'the certificate of the service, PEM' }, fileOf),
  tlsKey: setting({ placeholder: 'file', help: 'its key, PEM' }, fileOf),
  tlsClientCa: setting({ placeholder: 'file', help: 'the authorities of certificates that clients show, PEM' }, fileOf),
  certificateRights: setting({ placeholder: 'file', help: 'what each of these certificates may do, JSON' }, fileOf),
  tokenKey: setting(
    { placeholder: 'file', help: 'the public key, FILE.pub, of tokens that "tenure token sign" made' },
    fileOf,
  ),
  jwtKeys: setting({ placeholder: 'file', help: 'the public keys of the issuer of tokens, JWKS or PEM' }, fileOf),
  jwtIssuer: setting({ placeholder: 'text', help: 'what "iss" of a token must be' }, textOf),
  jwtAudience: setting({ placeholder: 'text', help: 'what "aud" of a token must be or hold' }, textOf),
  jwtMaxLifetime: fine('duration', 'the longest time from "iat" to "exp" of a token', '24h', parseDuration),
  jwtClockTolerance: fine('duration', 'how far the clock of the issuer may be off, at most 30s', '5s', parseDuration),
  allowedHost: listSetting(
    { placeholder: 'name', help: 'beside localhost, the only names by which clients may call it; may be repeated' },
    hostOf,
  ),
  maxConnections: fine('number', 'connections at once', '30000', countOf),
  maxConnectionsPerAddress: fine('number', 'connections at once from one address', '20000', countOf),
  maxUnidentifiedPerAddress: fine('number', 'the same before anybody has authenticated on them', '2000', countOf),
  unidentifiedTimeout: fine('duration', 'how long such a connection may be idle', '5s', parseDuration),
  headersTimeout: fine('duration', 'how long the head of a request may take', '10s', parseDuration),
  requestTimeout: fine('duration', 'how long a request may take to arrive', '30s', parseDuration),
  answerTimeout: fine('duration', 'how long an answer may stay unread', '1m', parseDuration),
  maxWaiting: fine('number', 'campaigns that wait in line at once', '20000', countOf),
  maxBodyBytes: fine('number', 'bytes of bodies above 8 KB that arrive at once', '67108864', countOf),
  maxAnswerBytes: fine('number', 'bytes of answers above 8 KB that are not read yet', '67108864', countOf),
  requestsPerSecond: fine(
    'number',
    `requests of a subject but renewals, 10 groups or 4 KB of one as one; ${unlimited}`,
    '1000',
    limitOf,
  ),
  renewalsPerSecond: fine(
    'number',
    `renewals and resignations of a subject, 128 bytes as one; ${unlimited}`,
    '50000',
    limitOf,
  ),
  maxGroupBytes: fine('number', 'bytes of memory that all groups take, about', 'half of the heap', countOf),
  newGroupsPerHour: fine('number', `groups that campaigns of a subject make; ${unlimited}`, '1000', limitOf),
  groupBytesPerSubject: fine(
    'number',
    `bytes of memory that groups of a subject take, 1 KB each at least; ${unlimited}`,
    '33554432',
    limitOf,
  ),
  watchesPerSubject: fine(
    'number',
    `watches of a subject at once, 50 groups of one as one; ${unlimited}`,
    '2000',
    limitOf,
  ),
  deliveriesPerSecond: fine(
    'number',
    `events that watches of a subject get, or its renewals cause; ${unlimited}`,
    '10000',
    limitOf,
  ),
  waitingPerSubject: fine('number', `campaigns of a subject that wait in line; ${unlimited}`, '2000', limitOf),
  logLevel: setting({ placeholder: 'level', help: logLevels.join(', ') }, oneOf(logLevels), 'info'),
  json: toggle('log as lines of JSON'),
  welcome: toggle('print how to try it', { fallback: process.stdout.isTTY, shownDefault: 'on a terminal' }),
}

export type ServeSettings = Chosen<typeof serveSettings>

/** Where everything is kept unless it is said. */
export const defaultData = resolve('tenure-data')

/** Checks settings that depend on each other. */
export function checkServeSettings(settings: ServeSettings): void {
  const { data, store, advertise, advertiseCa, tokenKey } = settings
  const { minTtl, maxTtl, tlsCert, tlsKey, tlsClientCa, certificateRights, jwtKeys, jwtIssuer, jwtAudience } = settings
  const problems: string[] = []
  const need = (what: string, given: unknown, needed: string, present: unknown) => {
    if (given !== undefined && present === undefined) problems.push(`${what} needs ${needed} too.`)
  }
  if (minTtl > maxTtl)
    problems.push(`--min-ttl (${formatDuration(minTtl)}) must not be above --max-ttl (${formatDuration(maxTtl)}).`)
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

/** Rarely needed: without a flag, and the service knows the default. */
function fine<T>(placeholder: string, help: string, shownDefault: string, parse: (text: string) => T) {
  return setting({ placeholder, help, shownDefault, withoutFlag: true }, parse)
}

function limitOf(text: string): number {
  return text === '0' ? 0 : countOf(text)
}
