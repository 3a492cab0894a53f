import { isTenureError, TenureError, type ErrorCode, type ErrorDetails } from '../../errors.ts'
import { messageOf } from '@tenure/internal/message'
import { foreignTable } from './schema.ts'

/** What the server answers where two statements got into each other's way and this one was undone. */
const undone = new Set(['40001', '40P01'])

/** Whether a write certainly did not happen, because another one was faster. */
export function isOvertaken(error: unknown): boolean {
  return undone.has(stateOf(error))
}

/** Whether a write certainly did not happen, because its wait for a lock was too long. */
export function isLockedOut(error: unknown): boolean {
  return stateOf(error) === '55P03'
}

/** Whether a table is missing. */
export function isMissingTable(error: unknown): boolean {
  return stateOf(error) === '42P01'
}

/** Whether the role lacks a right. */
export function isForbidden(error: unknown): boolean {
  return stateOf(error) === '42501'
}

/** Whether a statement was not run because a connection does not have it prepared, or not as it is now. */
export function isUnprepared(error: unknown): boolean {
  return ['26000', '42P05', '0A000'].includes(stateOf(error))
}

/**
 * Whether the connection may be used after this failure. Only the server's own word shows that it works. On another
 * one there may be no replica, no transaction that somebody left open (both are of class 25), and other settings.
 */
export function isUsableAfter(error: unknown): boolean {
  const state = stateOf(error)
  return state !== '' && !state.startsWith('25')
}

/** The SQLSTATE, by which servers tell errors apart in every language; empty if the error is not the server's. */
export function stateOf(error: unknown): string {
  const code: unknown = error instanceof Error ? Reflect.get(error, 'code') : undefined
  // No SQLSTATE begins with an E, but EPIPE and other errors of the system do.
  return typeof code === 'string' && /^[0-9A-DF-Z][0-9A-Z]{4}$/.test(code) ? code : ''
}

/** The advice to use `postgresSchema()`, whose arguments are `given`. `rule` is what it is used for. */
export function bySchema(given: '' | '{ role }', rule: string) {
  return { option: 'createTable', rule, advice: `postgresSchema(${given}) gives the ${rule}` }
}

interface Known {
  readonly code: ErrorCode
  readonly retryable: boolean
  readonly text: (table: string) => string
  readonly details?: ErrorDetails
}

const isNotTenures = (table: string) =>
  `The table "${table}", or one beside it, was not created by Tenure, or by a version that wrote it otherwise. Choose another name with the option "table" (in a URL: ?table=NAME)`

/** What is worth more words than the server has for it. The longest beginning of a SQLSTATE counts. */
const known: Readonly<Record<string, Known>> = {
  '08': unavailable('The connection to PostgreSQL broke'),
  '25': unavailable('A transaction was left open on this connection'),
  '25006': unavailable(
    'PostgreSQL takes no writes here: a replica, or default_transaction_read_only is on. Connect to the primary (target_session_attrs=read-write)',
  ),
  '28': { code: 'UNAUTHORIZED', retryable: false, text: () => 'PostgreSQL refuses the user or the password' },
  '3D000': { code: 'NOT_FOUND', retryable: false, text: () => 'PostgreSQL has no such database' },
  '3F000': {
    code: 'NOT_FOUND',
    retryable: false,
    text: (table) =>
      `The schema of "${table}" does not exist. Create it, or name another one with the option "table" (in a URL: ?table=SCHEMA.NAME)`,
  },
  '42501': {
    code: 'UNAUTHORIZED',
    retryable: false,
    text: (table) => `The role may not do that with the table "${table}"`,
    details: bySchema('{ role }', 'rights that it needs'),
  },
  '42703': { code: 'RECORD_INVALID', retryable: false, text: isNotTenures },
  '42P01': {
    code: 'NOT_FOUND',
    retryable: true,
    text: (table) => `The table "${table}", or one beside it, does not exist`,
    details: bySchema('', 'statements that create it'),
  },
  '53100': unavailable('The disk of PostgreSQL is full'),
  '53300': unavailable('PostgreSQL has no connection left'),
  '55P03': { code: 'TIMEOUT', retryable: true, text: () => 'Another session holds a lock that this call needs' },
  '57014': { code: 'TIMEOUT', retryable: true, text: () => 'PostgreSQL cancelled the statement' },
  [foreignTable]: { code: 'RECORD_INVALID', retryable: false, text: isNotTenures },
}

function unavailable(text: string): Known {
  return { code: 'BACKEND_UNAVAILABLE', retryable: true, text: () => text }
}

/** What the client, or the server, says where there was no password to show. */
const noPassword = /^SASL: .*client password must be|^empty password returned by client/

const passwordMissing =
  'PostgreSQL asks for a password, and none was given. Give one in the URL, in TENURE_STORE_PASSWORD or PGPASSWORD, or to the client.'

/** What a client threw, as an error of this library that says what to do. */
export function failureOf(error: unknown, table: string): Error {
  if (isTenureError(error)) return error
  // The caller's own signal.
  if (error instanceof Error && error.name === 'AbortError') return error
  const own = messageOf(error).trim() || 'it did not say why'
  if (noPassword.test(own)) return new TenureError('UNAUTHORIZED', passwordMissing, { cause: error })
  const state = own.startsWith('SASL: ') ? '28P01' : stateOf(error)
  const found = known[state] ?? known[state.slice(0, 2)] ?? unavailable('PostgreSQL failed')
  const { code, retryable, text, details } = found
  const what = details ? `${text(table)}. ${details.advice}` : text(table)
  return new TenureError(code, `${what}: ${own}`.replace(/\.?$/, '.'), { retryable, cause: error, ...details })
}
