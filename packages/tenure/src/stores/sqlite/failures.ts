import { errnoOf } from '@tenure/internal/errno'
import { messageOf } from '@tenure/internal/message'
import { isTenureError, TenureError, type ErrorCode } from '../../common/errors.ts'

/** SQLite's primary result codes that the store distinguishes. */
const codes = {
  SQLITE_ERROR: 1,
  SQLITE_PERM: 3,
  SQLITE_BUSY: 5,
  SQLITE_LOCKED: 6,
  SQLITE_READONLY: 8,
  SQLITE_IOERR: 10,
  SQLITE_CORRUPT: 11,
  SQLITE_FULL: 13,
  SQLITE_CANTOPEN: 14,
  SQLITE_PROTOCOL: 15,
  SQLITE_AUTH: 23,
  SQLITE_NOTADB: 26,
}

/**
 * The primary result code of a client's error. Undefined if the error does not come from SQLite. `node:sqlite` has it
 * in `errcode`, clients of libSQL in `rawCode`, and `better-sqlite3` only by name.
 */
function resultOf(error: unknown): number | undefined {
  if (!(error instanceof Error)) return undefined
  for (const field of ['errcode', 'rawCode']) {
    const value: unknown = Reflect.get(error, field)
    if (typeof value === 'number') return value & 0xff
  }
  const name = String(Reflect.get(error, 'code'))
  return Object.entries(codes).find(([known]) => name === known || name.startsWith(`${known}_`))?.[1]
}

/**
 * True if nothing was written because another connection holds the lock, or because other code has a transaction open
 * on the same connection.
 */
export function isBusy(error: unknown): boolean {
  const busy = [codes.SQLITE_BUSY, codes.SQLITE_LOCKED, codes.SQLITE_PROTOCOL]
  return (busy.includes(resultOf(error) ?? 0) && !isStuck(error)) || isOpenTransaction(error)
}

/** Clients of libSQL do not reset a statement that failed, and then no commit of that connection succeeds. */
function isStuck(error: unknown): boolean {
  return /statements in progress/.test(messageOf(error))
}

/** True if other code has a transaction open on the connection. */
export function isOpenTransaction(error: unknown): boolean {
  return resultOf(error) === codes.SQLITE_ERROR && /within a transaction/.test(messageOf(error))
}

/** True if a table is missing. */
export function isMissingTable(error: unknown): boolean {
  return /no such table/.test(messageOf(error))
}

/**
 * True if a new connection may work although this one failed: the file may have been repaired, or the disk may have
 * space again.
 */
export function needsNewConnection(error: unknown): boolean {
  const result = resultOf(error)
  return result !== undefined && result !== codes.SQLITE_ERROR
}

interface SqliteFailure {
  readonly code: ErrorCode
  readonly retryable: boolean
  readonly text: string
}

const rights =
  'Allow this user to write the file, the files next to it with the endings "-wal" and "-shm", and the directory'
const damaged: SqliteFailure = {
  code: 'RECORD_INVALID',
  retryable: false,
  text: 'It is damaged, or not a SQLite database. Stop all processes that use it, then restore or remove it together with the files next to it with the endings "-wal" and "-shm"',
}

const denied = unavailable(`The system denied access. ${rights}`)
const unopened = unavailable(`It cannot be opened. Its directory must exist. ${rights}`)

const known: Readonly<Record<number, SqliteFailure>> = {
  [codes.SQLITE_PERM]: denied,
  [codes.SQLITE_READONLY]: unavailable(`It is read-only for this process. ${rights}`),
  [codes.SQLITE_IOERR]: unavailable('The disk reported an error, or is full'),
  [codes.SQLITE_CORRUPT]: damaged,
  [codes.SQLITE_FULL]: unavailable('The disk is full. Free some space'),
  [codes.SQLITE_CANTOPEN]: unopened,
  [codes.SQLITE_AUTH]: { code: 'UNAUTHORIZED', retryable: false, text: 'The client may not run this statement' },
  [codes.SQLITE_NOTADB]: damaged,
}

function unavailable(text: string): SqliteFailure {
  return { code: 'BACKEND_UNAVAILABLE', retryable: true, text }
}

const foreign = (table: string): SqliteFailure => ({
  code: 'RECORD_INVALID',
  retryable: false,
  text: `Its table "${table}", or the one with the highest terms, was not created by Tenure. Set the option "table" to another name (in a URL: ?table=NAME)`,
})

const missing = (table: string): SqliteFailure => ({
  code: 'NOT_FOUND',
  retryable: true,
  text: `Its table "${table}", or the one with the highest terms, does not exist. sqliteSchema() returns the statements that create them`,
})

const rejected: SqliteFailure = {
  code: 'UNAUTHORIZED',
  retryable: false,
  text: 'The libSQL server rejected the token. Pass a valid "authToken" to the client',
}

const closed: SqliteFailure = { code: 'STOPPED', retryable: false, text: 'The client is closed' }

/** Converts an error from the client to a library error that says what to do. `place` names the database. */
export function failureOf(error: unknown, place: string, table: string): Error {
  if (isTenureError(error) || (error instanceof Error && error.name === 'AbortError')) return error
  const own = messageOf(error).trim() || 'no reason given'
  const { code, retryable, text } = knownFailure(error, own, table)
  const message = `The SQLite store cannot use ${place}. ${text}: ${own}`.replace(/\.?$/, '.')
  return new TenureError(code, message, { retryable, cause: error })
}

function knownFailure(error: unknown, own: string, table: string): SqliteFailure {
  if (isMissingTable(error)) return missing(table)
  if (errnoOf(error) === 'EACCES') return denied
  if (/no such column|has no column|no column named|may not be modified|does not match any PRIMARY KEY/.test(own)) {
    return foreign(table)
  }
  // libSQL reports a file that it cannot open without a code.
  if (/unable to open/i.test(own)) return unopened
  if (/(connection|database|client) is (closed|not open)/i.test(own)) return closed
  if (/\b(401|403)\b|unauthori[sz]ed/i.test(own)) return rejected
  return known[resultOf(error) ?? 0] ?? unavailable('It failed')
}

/** The error for a lock that another process held for the whole call. */
export function lockedOut(place: string, timeoutMs: number | undefined, cause: unknown): TenureError {
  const [who, toDo] = isOpenTransaction(cause)
    ? ["Other code has a transaction open on the store's connection", 'Give the store its own connection.']
    : ['Another connection holds its lock', 'Keep write transactions on this database short.']
  const howLong = timeoutMs === undefined ? '' : ` for ${Math.round(timeoutMs)} ms`
  const text = `The SQLite store cannot use ${place}. ${who}, and this call waited in vain${howLong}. Nothing was written. ${toDo}`
  return new TenureError('TIMEOUT', text, { retryable: true, cause })
}
