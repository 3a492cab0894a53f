/** Why leadership ended. */
export type LossReason = 'expired' | 'superseded' | 'released' | 'stopped'

/** Every code that an error of this library can carry; `docs/errors.md` tells what to do about each. */
export const errorCodes = [
  'INVALID_OPTION',
  'ALREADY_STARTED',
  'STOPPED',
  'LEADERSHIP_LOST',
  'TERMS_REQUIRED',
  'TERM_EXHAUSTED',
  'STALE_TERM',
  'TIMEOUT',
  'RECORD_INVALID',
  'BACKEND_UNAVAILABLE',
  'UNAUTHORIZED',
  'WRONG_CLUSTER',
  'INVALID_TTL',
  'INVALID_REQUEST',
  'NOT_FOUND',
  'TOO_LARGE',
  'RATE_LIMITED',
  'LOCK_UNAVAILABLE',
  'UNSUPPORTED_FILESYSTEM',
  'UNKNOWN_STORE',
  'WORK_FAILED',
  'WORK_UNSETTLED',
  'RELEASE_FAILED',
] as const

/** A stable name for what went wrong. */
export type ErrorCode = (typeof errorCodes)[number]

/**
 * An error of this library: `code` is stable, `retryable` tells whether the same call may succeed later.
 *
 * @example
 * try { await work() } catch (error) {
 *   if (isTenureError(error) && error.code === 'STALE_TERM') return
 *   throw error
 * }
 */
export class TenureError extends Error {
  override readonly name: string = 'TenureError'
  readonly code: ErrorCode
  readonly retryable: boolean

  constructor(code: ErrorCode, message: string, options: { retryable?: boolean; cause?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.code = code
    this.retryable = options.retryable ?? false
  }
}

/**
 * The reason of a leadership's signal, and what `throwIfLost()` throws.
 *
 * @example
 * leadership.signal.addEventListener('abort', () => console.log(leadership.signal.reason.reason))
 */
export class LeadershipLostError extends TenureError {
  override readonly name = 'LeadershipLostError'
  readonly reason: LossReason
  readonly election: string
  readonly term: number

  constructor(election: string, term: number, reason: LossReason, cause?: unknown) {
    const text = {
      expired: 'the lease was not renewed in time',
      superseded: 'the store no longer shows this grant',
      released: 'this elector stepped down',
      stopped: 'this elector was stopped',
    }[reason]
    super('LEADERSHIP_LOST', `Leadership of "${election}" in term ${term} ended: ${text}.`, { cause })
    this.reason = reason
    this.election = election
    this.term = term
  }
}

/**
 * Whether something thrown is an error of this library, also across two copies of it.
 *
 * @example
 * if (isTenureError(error)) console.log(error.code, error.retryable)
 */
export function isTenureError(error: unknown): error is TenureError {
  return (
    error instanceof Error &&
    'code' in error &&
    'retryable' in error &&
    (errorCodes as readonly unknown[]).includes(error.code)
  )
}

/** A wrong option is a programmer's mistake: a TypeError that names the option, the value and the rule. */
export function invalidOption(option: string, value: unknown, rule: string): TypeError {
  const error = new TypeError(`Option "${option}" is ${show(value)}, but ${rule}.`)
  return Object.assign(error, { code: 'INVALID_OPTION' as const, retryable: false })
}

/** What was thrown, in words. */
export function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown)
}

function show(value: unknown): string {
  if (typeof value === 'string') return quote(value.length > 80 ? `${value.slice(0, 80)}…` : value)
  if (typeof value === 'number' || typeof value === 'undefined' || typeof value === 'boolean') return String(value)
  if (typeof value === 'bigint') return `${value}n`
  return value === null ? 'null' : `${typeof value === 'object' ? 'an' : 'a'} ${typeof value}`
}

/** JSON leaves DEL and C1 as they are, and a terminal obeys some of them. */
function quote(text: string): string {
  return JSON.stringify(text).replace(/[\u007f-\u009f]/g, (c) => `\\u00${c.charCodeAt(0).toString(16)}`)
}
