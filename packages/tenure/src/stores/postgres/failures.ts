import { isTenureError, TenureError, type ErrorCode, type ErrorDetails } from '../../common/errors.ts'
import { messageOf } from '@tenure/internal/message'
import { foreignTable } from './schema.ts'

/** SQLSTATEs for a statement that was rolled back because it conflicted with another one. */
const undone = new Set(['40001', '40P01'])

/** True if a write certainly did not happen because another write was faster. */
export function isOvertaken(error: unknown): boolean {
  return undone.has(stateOf(error))
}

/** True if a write certainly did not happen because it waited too long for a lock. */
export function isLockTimeout(error: unknown): boolean {
  return stateOf(error) === '55P03'
}

/** True if a table is missing. */
export function isMissingTable(error: unknown): boolean {
  return stateOf(error) === '42P01'
}

/** True if the role lacks a permission. */
export function isPermissionDenied(error: unknown): boolean {
  return stateOf(error) === '42501'
}

/**
 * True if a statement was not run because it is not prepared on this connection, or is prepared in an outdated form.
 */
export function isUnprepared(error: unknown): boolean {
  return ['26000', '42P05', '0A000'].includes(stateOf(error))
}

/**
 * Whether the connection may be reused after this error. Only an answer from the server shows that it still works. After
 * an error of class 25, another connection may help: to a primary, with other settings, or without the transaction that
 * someone left open.
 */
export function isUsableAfter(error: unknown): boolean {
  const state = stateOf(error)
  return state !== '' && !state.startsWith('25')
}

/** The SQLSTATE, which identifies an error in every language. Empty if the error does not come from the server. */
export function stateOf(error: unknown): string {
  const code: unknown = error instanceof Error ? Reflect.get(error, 'code') : undefined
  // No SQLSTATE begins with E, but system errors such as EPIPE do.
  return typeof code === 'string' && /^[0-9A-DF-Z][0-9A-Z]{4}$/.test(code) ? code : ''
}

/** Advice to use `postgresSchema()` with the arguments `given`. `rule` says when its statements are needed. */
export function schemaAdvice(given: '' | '{ role }', rule: string) {
  return { option: 'createTable', rule, advice: `postgresSchema(${given}) returns the ${rule}` }
}

interface KnownPostgresFailure {
  readonly code: ErrorCode
  readonly retryable: boolean
  readonly text: (table: string) => string
  readonly details?: ErrorDetails
}

const isNotTenures = (table: string) =>
  `The table "${table}", or one of its companion tables, was not created by Tenure, or was created by an incompatible version. Set the option "table" to another name (in a URL: ?table=NAME)`

/** Errors that need more explanation than the server provides. A full SQLSTATE takes precedence over its class. */
const known: Readonly<Record<string, KnownPostgresFailure>> = {
  '08': unavailable('The connection to PostgreSQL broke'),
  '25': unavailable('A transaction was left open on this connection'),
  '25006': unavailable(
    'This PostgreSQL is read-only: it is a replica, or default_transaction_read_only is on. Connect to the primary (target_session_attrs=read-write)',
  ),
  '28': { code: 'UNAUTHORIZED', retryable: false, text: () => 'PostgreSQL rejected the user name or the password' },
  '3D000': { code: 'NOT_FOUND', retryable: false, text: () => 'PostgreSQL has no such database' },
  '3F000': {
    code: 'NOT_FOUND',
    retryable: false,
    text: (table) =>
      `The schema of "${table}" does not exist. Create it, or set the option "table" to a table in another schema (in a URL: ?table=SCHEMA.NAME)`,
  },
  '42501': {
    code: 'UNAUTHORIZED',
    retryable: false,
    text: (table) => `The role lacks a permission on the table "${table}"`,
    details: schemaAdvice('{ role }', 'statements that grant it'),
  },
  '42703': { code: 'RECORD_INVALID', retryable: false, text: isNotTenures },
  '42P01': {
    code: 'NOT_FOUND',
    retryable: true,
    text: (table) => `The table "${table}", or one of its companion tables, does not exist`,
    details: schemaAdvice('', 'statements that create it'),
  },
  '53100': unavailable("The PostgreSQL server's disk is full"),
  '53300': unavailable('PostgreSQL has reached its connection limit'),
  '55P03': { code: 'TIMEOUT', retryable: true, text: () => 'Another session holds a lock that this call needs' },
  '57014': { code: 'TIMEOUT', retryable: true, text: () => 'PostgreSQL canceled the statement' },
  [foreignTable]: { code: 'RECORD_INVALID', retryable: false, text: isNotTenures },
}

function unavailable(text: string): KnownPostgresFailure {
  return { code: 'BACKEND_UNAVAILABLE', retryable: true, text: () => text }
}

/** The errors from the client or the server when no password was provided. */
const noPassword = /^SASL: .*client password must be|^empty password returned by client/

const passwordMissing =
  'PostgreSQL requires a password, but none is set. Set it in the URL, in TENURE_STORE_PASSWORD or PGPASSWORD, or in the client.'

/** Converts an error from the client to a library error that says what to do. */
export function failureOf(error: unknown, table: string): Error {
  if (isTenureError(error)) return error
  // The caller's own signal aborted.
  if (error instanceof Error && error.name === 'AbortError') return error
  const own = messageOf(error).trim() || 'no reason given'
  if (noPassword.test(own)) return new TenureError('UNAUTHORIZED', passwordMissing, { cause: error })
  const state = own.startsWith('SASL: ') ? '28P01' : stateOf(error)
  const found = known[state] ?? known[state.slice(0, 2)] ?? unavailable('PostgreSQL failed')
  const { code, retryable, text, details } = found
  const what = details ? `${text(table)}. ${details.advice}` : text(table)
  return new TenureError(code, `${what}: ${own}`.replace(/\.?$/, '.'), { retryable, cause: error, ...details })
}
