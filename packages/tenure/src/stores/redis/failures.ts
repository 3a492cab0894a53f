import { messageOf } from '@tenure/internal/message'
import { isTenureError, TenureError, type ErrorCode } from '../../errors.ts'
import { replyCodeOf } from './link.ts'

interface Known {
  readonly code: ErrorCode
  readonly retryable: boolean
  readonly text: string
}

/** What `ACL SETUSER` is to give to a user of this store. */
export const redisRights =
  '~tenure:* &tenure:* +@connection +eval +evalsha +get +mset +set +persist +publish +subscribe +unsubscribe +info +scan +wait +config|get'

/** What is worth more words than Redis has for it. */
const known: Readonly<Record<string, Known>> = {
  READONLY: unavailable(
    'This Redis is a replica. Connect to the primary, or through Sentinel, which knows where it is',
  ),
  MASTERDOWN: unavailable('This Redis is a replica that has lost its primary'),
  LOADING: unavailable('Redis is still loading its data'),
  BUSY: unavailable('Redis is busy with a script'),
  OOM: unavailable('Redis is full: it has reached maxmemory and takes no writes. Give it more, or remove something'),
  MISCONF: unavailable('Redis takes no writes, because it cannot save them to its disk'),
  NOREPLICAS: unavailable('Redis takes no writes, because too few replicas follow it (min-replicas-to-write)'),
  CLUSTERDOWN: unavailable('The Redis cluster takes no calls'),
  TRYAGAIN: unavailable('The Redis cluster is moving this slot'),
  MOVED: isCluster(),
  ASK: isCluster(),
  CROSSSLOT: isCluster(),
  NOAUTH: unauthorized('Redis asks for a password. Give one in the URL, in TENURE_STORE_PASSWORD or to the client'),
  WRONGPASS: unauthorized('Redis refuses the user or the password'),
  SENTINEL: unauthorized(
    'The sentinels refuse the user or the password, or ask for one. Give "sentinelPassword" in the URL, TENURE_SENTINEL_PASSWORD, or the same to the client',
  ),
  NOPERM: unauthorized(`The Redis user lacks a right. With its prefix in place of "tenure:" it needs ${redisRights}`),
  DATABASE: {
    code: 'BACKEND_UNAVAILABLE',
    retryable: false,
    text: 'Redis refuses the database that was asked for, and this store never takes another one in its place: two could lead. Correct the number at the end of the URL, or "databases" of the server',
  },
  SELECT: unauthorized(
    'The Redis user may not select a database. Give it that right (+select), or use database 0, which needs none',
  ),
  CLOSED: unavailable(
    'The connection to Redis was closed by the other side, or on the way. If it always is: does that port want TLS (rediss:), or does something else answer there',
  ),
  WRONGTYPE: {
    code: 'RECORD_INVALID',
    retryable: false,
    text: 'A key of this election belongs to another program. Choose another prefix with the option "prefix"',
  },
}

function unavailable(text: string): Known {
  return { code: 'BACKEND_UNAVAILABLE', retryable: true, text }
}

function unauthorized(text: string): Known {
  return { code: 'UNAUTHORIZED', retryable: false, text }
}

function isCluster(): Known {
  const text = 'This Redis is a cluster. Use a client for clusters, or "?cluster=true" in the URL'
  return { code: 'BACKEND_UNAVAILABLE', retryable: false, text }
}

/** What a client threw, as an error of this library that says what to do; `place` is what the call was about. */
export function failureOf(error: unknown, place: string): Error {
  if (isTenureError(error)) return error
  // The caller's own signal.
  if (error instanceof Error && error.name === 'AbortError') return error
  const own = messageOf(error).trim() || 'it did not say why'
  const reply = codeOf(error)
  const other = unavailable(reply === '' ? 'The connection to Redis failed' : 'Redis refuses the call')
  const { code, retryable, text } = known[reply] ?? other
  return new TenureError(code, `${text} (${place}): ${own}`.replace(/\.?$/, '.'), { retryable, cause: error })
}

/** What is known by its words, because its first one says too little. */
const worded: readonly (readonly [RegExp, string])[] = [
  // How ioredis says what the last of them said.
  [/^All sentinels .*: (NOAUTH|WRONGPASS|ERR AUTH) /s, 'SENTINEL'],
  // How servers before version 6 say it, and those that have no passwords at all.
  [/^ERR (AUTH |invalid password|Client sent AUTH)/, 'WRONGPASS'],
  // How the clients say it, without a reason.
  [/^(Connection is closed|Socket closed unexpectedly)/, 'CLOSED'],
  // The answers to SELECT.
  [/^ERR (DB index is out of range|invalid DB index|value is not an integer)/, 'DATABASE'],
  [/^ERR SELECT is not allowed in cluster mode/, 'MOVED'],
  [/^NOPERM .*'select'/, 'SELECT'],
]

function codeOf(error: unknown): string {
  const said = messageOf(error)
  return worded.find(([words]) => words.test(said))?.[1] ?? replyCodeOf(error)
}
