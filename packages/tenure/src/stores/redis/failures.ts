import { messageOf } from '@tenure/internal/message'
import { isTenureError, TenureError, type ErrorCode } from '../../common/errors.ts'
import { replyCodeOf } from './link.ts'

interface KnownRedisFailure {
  readonly code: ErrorCode
  readonly retryable: boolean
  readonly text: string
}

/** The rights to grant with `ACL SETUSER` to a user of this store. */
export const requiredAclRules =
  '~tenure:* &tenure:* +@connection +eval +evalsha +get +mset +set +persist +publish +subscribe +unsubscribe +info +scan +wait +config|get'

/** Redis errors that need more explanation than Redis provides. */
const known: Readonly<Record<string, KnownRedisFailure>> = {
  READONLY: unavailable(
    'This Redis is a replica. Connect to the primary, or through Sentinel, which finds the primary',
  ),
  MASTERDOWN: unavailable('This Redis is a replica that has lost its primary'),
  LOADING: unavailable('Redis is still loading its data'),
  BUSY: unavailable('Redis is busy with a script'),
  OOM: unavailable('Redis has reached maxmemory and refuses writes. Raise maxmemory, or remove some keys'),
  MISCONF: unavailable('Redis refuses writes because it cannot save them to disk'),
  NOREPLICAS: unavailable('Redis refuses writes because it has too few replicas (min-replicas-to-write)'),
  CLUSTERDOWN: unavailable('The Redis cluster is down and refuses commands'),
  TRYAGAIN: unavailable('The Redis cluster is moving this slot'),
  MOVED: isCluster(),
  ASK: isCluster(),
  CROSSSLOT: isCluster(),
  NOAUTH: unauthorized('Redis requires a password. Set it in the URL, in TENURE_STORE_PASSWORD, or in the client'),
  WRONGPASS: unauthorized('Redis rejected the user name or the password'),
  SENTINEL: unauthorized(
    'The sentinels require a password, or rejected the user name or the password. Set "sentinelPassword" in the URL, TENURE_SENTINEL_PASSWORD, or the sentinel password of the client',
  ),
  NOPERM: unauthorized(
    `The Redis user lacks a permission. It needs ${requiredAclRules} (replace "tenure:" with the prefix of the store)`,
  ),
  DATABASE: {
    code: 'BACKEND_UNAVAILABLE',
    retryable: false,
    text: 'Redis rejected the database number, and the store never falls back to another database, because two candidates could then lead at once. Correct the number at the end of the URL, or the setting "databases" of the server',
  },
  SELECT: unauthorized(
    'The Redis user may not select a database. Grant it +select, or use database 0, which does not need it',
  ),
  CLOSED: unavailable(
    'The connection to Redis was closed by the server or the network. If this persists, check whether the port requires TLS (rediss:) and whether it belongs to Redis',
  ),
  WRONGTYPE: {
    code: 'RECORD_INVALID',
    retryable: false,
    text: 'A key of this election belongs to another program. Set the option "prefix" to another prefix',
  },
}

function unavailable(text: string): KnownRedisFailure {
  return { code: 'BACKEND_UNAVAILABLE', retryable: true, text }
}

function unauthorized(text: string): KnownRedisFailure {
  return { code: 'UNAUTHORIZED', retryable: false, text }
}

function isCluster(): KnownRedisFailure {
  const text = 'This Redis is a cluster. Use a client for clusters, or "?cluster=true" in the URL'
  return { code: 'BACKEND_UNAVAILABLE', retryable: false, text }
}

/** Converts an error from the client to a library error that says what to do. `place` names the keys of the call. */
export function failureOf(error: unknown, place: string): Error {
  if (isTenureError(error)) return error
  // The caller's own signal aborted.
  if (error instanceof Error && error.name === 'AbortError') return error
  const own = messageOf(error).trim() || 'no reason given'
  const reply = codeOf(error)
  const other = unavailable(reply === '' ? 'The connection to Redis failed' : 'Redis rejected the call')
  const { code, retryable, text } = known[reply] ?? other
  return new TenureError(code, `${text} (${place}): ${own}`.replace(/\.?$/, '.'), { retryable, cause: error })
}

/** Errors that are recognized by their text, because their first word is too general. */
const worded: readonly (readonly [RegExp, string])[] = [
  // ioredis reports the last sentinel's error this way.
  [/^All sentinels .*: (NOAUTH|WRONGPASS|ERR AUTH) /s, 'SENTINEL'],
  // Servers before version 6 and servers without passwords reply with these messages.
  [/^ERR (AUTH |invalid password|Client sent AUTH)/, 'WRONGPASS'],
  // The clients report these messages without a reason.
  [/^(Connection is closed|Socket closed unexpectedly)/, 'CLOSED'],
  // Replies to SELECT.
  [/^ERR (DB index is out of range|invalid DB index|value is not an integer)/, 'DATABASE'],
  [/^ERR SELECT is not allowed in cluster mode/, 'MOVED'],
  [/^NOPERM .*'select'/, 'SELECT'],
]

function codeOf(error: unknown): string {
  const said = messageOf(error)
  return worded.find(([words]) => words.test(said))?.[1] ?? replyCodeOf(error)
}
