import { messageOf } from '@tenure/internal/message'
import { isTenureError, TenureError, type ErrorCode, type ErrorDetails } from '../../common/errors.ts'

/**
 * The number of a server's error, even when another library wrapped it. Undefined if the error does not come from the
 * server.
 */
export function errorNumber(error: unknown): number | undefined {
  for (let each: unknown = error, depth = 0; each instanceof Error && depth < 5; each = each.cause, depth++) {
    const meta: unknown = Reflect.get(each, 'meta')
    const wrapped: unknown = typeof meta === 'object' && meta !== null ? Reflect.get(meta, 'code') : undefined
    const number = Number(Reflect.get(each, 'errno') ?? wrapped)
    // Smaller numbers are those of the server's files if the error has a state, and of the client's sockets otherwise.
    if (number >= 1_000 || (number > 0 && typeof Reflect.get(each, 'sqlState') === 'string')) return number
  }
  return undefined
}

/** A deadlock, a row that another transaction changed, and a row that exists: another write was faster. */
const overtaken = new Set([1213, 1020, 1062])

/** True if a write certainly did not happen because another write was faster. */
export function isOvertaken(error: unknown): boolean {
  return overtaken.has(errorNumber(error) ?? 0)
}

/** True if a write certainly did not happen because it waited too long for a lock. */
export function isLockTimeout(error: unknown): boolean {
  return errorNumber(error) === 1205
}

/** True if the table is missing. */
export function isMissingTable(error: unknown): boolean {
  return errorNumber(error) === 1146
}

/** True if the user lacks a right on the table. */
export function isPermissionDenied(error: unknown): boolean {
  return [1142, 1143, 1044].includes(errorNumber(error) ?? 0)
}

/** Errors after which another connection may help: to a primary, or to a server that is not shutting down. */
const unusable = new Set([1053, 1290, 1317, 1792, 1836, 1927])

/** Whether the connection may be reused after this error. Only an answer from the server shows that it still works. */
export function isUsableAfter(error: unknown): boolean {
  const number = errorNumber(error)
  return number !== undefined && !unusable.has(number) && Reflect.get(error as Error, 'fatal') !== true
}

interface MysqlFailure {
  readonly code: ErrorCode
  readonly retryable: boolean
  readonly text: (table: string) => string
  readonly details?: ErrorDetails
}

/** Advice to use `mysqlSchema()`. */
export const schemaAdvice = {
  option: 'createTable',
  rule: 'statement that creates it',
  advice: 'mysqlSchema() returns the statement that creates it',
}

const readOnly = 'This server is read-only: it is a replica, or read_only is on. Connect to the primary'

const cannotWrite = 'The server cannot write a file. Its disk may be full'

const known: Readonly<Record<number, MysqlFailure>> = {
  1: unavailable(cannotWrite),
  3: unavailable(cannotWrite),
  20: unavailable(cannotWrite),
  1021: unavailable("The server's disk is full"),
  1040: unavailable('The server has reached its connection limit (max_connections)'),
  1044: unauthorized('The user may not use this database'),
  1045: unauthorized('The server rejected the user name or the password'),
  1046: {
    code: 'NOT_FOUND',
    retryable: false,
    text: () => 'The connection has no database. Name one in the URL, or set the option "table" to DATABASE.TABLE',
  },
  1047: unavailable('This node is not part of a cluster with a majority, and refuses statements'),
  1049: { code: 'NOT_FOUND', retryable: false, text: () => 'The server has no such database' },
  1053: unavailable('The server is shutting down'),
  1114: unavailable("The table or the server's disk is full"),
  1129: unavailable('The server blocks this host after too many failed connections'),
  1130: unauthorized('The server does not accept connections from this host'),
  1142: unauthorized((table) => `The user lacks a right on the table "${table}". It needs SELECT, INSERT and UPDATE`),
  1143: unauthorized((table) => `The user lacks a right on a column of the table "${table}"`),
  1146: {
    code: 'NOT_FOUND',
    retryable: true,
    text: (table) => `The table "${table}" does not exist`,
    details: schemaAdvice,
  },
  1203: unavailable('The user has reached its connection limit (max_user_connections)'),
  1205: { code: 'TIMEOUT', retryable: true, text: () => 'Another session holds a lock that this call needs' },
  1226: unavailable('The user has reached a limit of the server'),
  1290: unavailable(readOnly),
  1317: { code: 'TIMEOUT', retryable: true, text: () => 'The server canceled the statement' },
  1698: unauthorized('The server rejected the user name or the password'),
  1792: unavailable('Other code opened a read-only transaction on this connection'),
  1836: unavailable(readOnly),
  1927: unavailable('The server closed the connection'),
  1969: { code: 'TIMEOUT', retryable: true, text: () => 'The server canceled the statement (max_statement_time)' },
}

function unavailable(text: string): MysqlFailure {
  return { code: 'BACKEND_UNAVAILABLE', retryable: true, text: () => text }
}

function unauthorized(text: string | ((table: string) => string)): MysqlFailure {
  return { code: 'UNAUTHORIZED', retryable: false, text: typeof text === 'string' ? () => text : text }
}

/** The error for a server that accepts no writes. */
export function isReadOnly(): TenureError {
  return new TenureError('BACKEND_UNAVAILABLE', `${readOnly}.`, { retryable: true })
}

/** Converts an error from the client to a library error that says what to do. */
export function failureOf(error: unknown, table: string): Error {
  if (isTenureError(error)) return error
  // The caller's own signal aborted.
  if (error instanceof Error && error.name === 'AbortError') return error
  const own = messageOf(error).trim() || 'no reason given'
  const number = errorNumber(error)
  const other = unavailable(
    number === undefined ? 'The connection to the server failed' : 'The server refused the call',
  )
  const { code, retryable, text, details } = known[number ?? 0] ?? other
  const what = details ? `${text(table)}. ${details.advice}` : text(table)
  return new TenureError(code, `${what}: ${own}`.replace(/\.?$/, '.'), { retryable, cause: error, ...details })
}
