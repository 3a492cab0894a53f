/**
 * Why leadership ended.
 *
 * - `expired`: the lease was not renewed in time.
 * - `superseded`: the record was deleted or overwritten.
 * - `released`: `stepDown()` was called.
 * - `handed-over`: `stepDown({ to })` was called.
 * - `ineligible`: the option `eligible` returned false for too long.
 * - `stalled`: `leadership.progress()` was not called for `progressTimeoutMs`.
 * - `stopped`: the elector was stopped.
 */
export type LossReason = (typeof lossReasons)[number]

/** Every {@link LossReason}. */
export const lossReasons = [
  'expired',
  'superseded',
  'released',
  'handed-over',
  'ineligible',
  'stalled',
  'stopped',
] as const

/** Whether an elector ended its leadership itself, so that it renews its lease until its work has settled. */
export function isVoluntaryEnd(reason: LossReason): boolean {
  return reason !== 'expired' && reason !== 'superseded'
}

/**
 * Every error code of the library, the service, and the command line. `docs/reference/errors.md` says what to do about
 * each.
 */
export const errorCodes = [
  'INVALID_OPTION',
  'ALREADY_STARTED',
  'STOPPED',
  'BUSY',
  'LOCK_TIMEOUT',
  'MAX_RUNTIME',
  'LEADERSHIP_LOST',
  'TERMS_REQUIRED',
  'TERM_EXHAUSTED',
  'STALE_TERM',
  'TIMEOUT',
  'RECORD_INVALID',
  'BACKEND_UNAVAILABLE',
  'UNAUTHORIZED',
  'MISSING_RIGHT',
  'WRONG_CLUSTER',
  'INVALID_TTL',
  'INVALID_REQUEST',
  'NOT_FOUND',
  'TOO_LARGE',
  'RATE_LIMITED',
  'NOT_LEADER',
  'NOT_OWNER',
  'CONFLICT',
  'LOCK_UNAVAILABLE',
  'UNSUPPORTED_FILESYSTEM',
  'UNSAFE_PERMISSIONS',
  'UNKNOWN_STORE',
  'DRIVER_MISSING',
  'UNSAFE_SETTINGS',
  'WORK_FAILED',
  'WORK_UNSETTLED',
  'PREFERENCE_FAILED',
  'RELEASE_FAILED',
  'SEATS_EXHAUSTED',
  'CLONED',
] as const

/** A stable name for what went wrong. */
export type ErrorCode = (typeof errorCodes)[number]

/**
 * The parts of an error as data, for programs that write their own messages. The error's message contains all of them.
 */
export interface ErrorDetails {
  /** The option or variable that the error is about, such as `leaseDurationMs` or `TENURE_CA_FILE`. */
  readonly option?: string | undefined
  /** The option's value as the message shows it: short, and without passwords. A number stays a number. */
  readonly value?: string | number | undefined
  /** What the value must be, or what is wrong with it. */
  readonly rule?: string | undefined
  /** The smallest value that the rule allows, if the option is a number. */
  readonly least?: number | undefined
  /** The part of the message that says what to do. */
  readonly advice?: string | undefined
}

/**
 * An error from this library. `code` is stable, and `retryable` says whether the same call may succeed later. `option`,
 * `value`, `rule`, and `advice` are set where they apply.
 *
 * @example
 * try { await work() } catch (error) {
 *   if (isTenureError(error) && error.code === 'STALE_TERM') return
 *   throw error
 * }
 */
export class TenureError extends Error implements ErrorDetails {
  override readonly name: string = 'TenureError'
  readonly code: ErrorCode
  readonly retryable: boolean
  // These fields are declared without initializers. Otherwise every printed error would show five undefined properties.
  declare readonly option?: string
  declare readonly value?: string | number
  declare readonly rule?: string
  declare readonly least?: number
  declare readonly advice?: string

  constructor(
    code: ErrorCode,
    message: string,
    options: ErrorDetails & { retryable?: boolean | undefined; cause?: unknown } = {},
  ) {
    const { retryable = false, cause, ...details } = options
    super(message, cause === undefined ? undefined : { cause })
    this.code = code
    this.retryable = retryable
    const given = Object.entries(details).filter(([, value]) => value !== undefined)
    Object.assign(this, Object.fromEntries(given))
  }
}

/**
 * The reason of a leadership's signal, and the error that `throwIfLost()` throws. If the lease expired after calls to
 * the store failed, `cause` is the store's last error.
 *
 * @example
 * leadership.signal.addEventListener('abort', () => console.log(leadership.signal.reason.reason))
 */
export class LeadershipLostError extends TenureError {
  override readonly name = 'LeadershipLostError'
  readonly reason: LossReason
  readonly election: string
  readonly term: number

  /** `stalledMs` is how long the process was stalled, if that is why the lease expired. */
  constructor(
    election: string,
    term: number,
    reason: LossReason,
    cause?: unknown,
    namespace?: string,
    stalledMs: number = 0,
  ) {
    const text = {
      expired: stalledMs > 0 ? stalled(stalledMs) : 'the lease was not renewed in time',
      superseded: 'its record was deleted or overwritten in the store',
      released: 'this elector stepped down',
      'handed-over': 'this elector handed over to another candidate',
      ineligible: 'this process was no longer eligible to lead',
      stalled: 'its work did not report progress in time',
      stopped: 'this elector was stopped',
    }[reason]
    super('LEADERSHIP_LOST', `Leadership of "${fullName({ election, namespace })}" in term ${term} ended: ${text}.`, {
      cause,
    })
    this.reason = reason
    this.election = election
    this.term = term
  }
}

function stalled(ms: number): string {
  return `the lease was not renewed in time, because this process did not run for at least ${Math.round(ms)} ms: its event loop was blocked, or it was paused`
}

/**
 * An election's name for messages. It includes the namespace, because two namespaces may each have a Lease of the same
 * name.
 */
export function fullName({ election, namespace }: { election: string; namespace?: string | undefined }): string {
  return namespace === undefined ? election : `${namespace}/${election}`
}

/**
 * Whether a thrown value is an error from this library, even if another copy of the library created it.
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

/**
 * Creates the error for an invalid option: a TypeError that names the option, the value, and the rule. `least` is the
 * smallest value that the rule allows, if the option is a number.
 *
 * @example
 * if (port > 65_535) throw invalidOption('port', port, 'it must be at most 65535')
 */
export function invalidOption(option: string, value: unknown, rule: string, least?: number): TypeError {
  const shown = typeof value === 'number' ? value : show(value)
  return optionError({ option, value: shown, rule, ...(least !== undefined && { least }) })
}

/** Creates the error for an invalid option whose value should not be shown, or that needs its own message. */
export function optionError(
  details: ErrorDetails & { readonly option: string },
  message = optionMessage(`Option "${details.option}"`, details),
): TypeError {
  return Object.assign(new TypeError(message), { code: 'INVALID_OPTION' as const, retryable: false, ...details })
}

/**
 * The message for an invalid option. `name` is what the user calls it.
 *
 * @example
 * if (isTenureError(error) && error.rule) console.error(optionMessage('--port', error))
 */
export function optionMessage(name: string, { value, rule, advice }: ErrorDetails): string {
  const text = value === undefined ? `${name} ${rule}.` : `${name} is ${value}, but ${rule}.`
  return advice === undefined ? text : `${text} ${advice}`
}

/** Formats a value for a message: short, without passwords, and without terminal control characters. */
export function show(value: unknown): string {
  if (typeof value === 'string') return quote(shortened(withoutPassword(value)))
  if (typeof value === 'number' || typeof value === 'undefined' || typeof value === 'boolean') return String(value)
  if (typeof value === 'bigint') return `${value}n`
  if (value instanceof AbortSignal) return 'an AbortSignal'
  if (value instanceof Promise) return 'a promise'
  return value === null ? 'null' : `${typeof value === 'object' ? 'an' : 'a'} ${typeof value}`
}

/** Users often pass a URL where a client is expected, and that URL may contain a password. */
function withoutPassword(text: string): string {
  if (text.includes('://')) return redactedUrl(text)
  return text.replace(/(\bpassword\s*=).*/is, '$1***')
}

function shortened(text: string): string {
  return text.length > 80 ? `${text.slice(0, 80)}…` : text
}

/** JSON.stringify does not escape DEL and C1, and terminals act on some of them. */
function quote(text: string): string {
  return JSON.stringify(text).replace(/[\u007f-\u009f]/g, (c) => `\\u00${c.charCodeAt(0).toString(16)}`)
}

/** URL parameters that never contain a secret and are useful in a message. */
const plain = new Set(
  'cluster endpoint prefix region sentinel shareWithGroup ssl-mode sslmode table waitForReplicas'.split(' '),
)

/** A host with or without a port. `http:` starts the next of several addresses. */
const plainHost = /^(?:(?:\[[\da-f:.]+\]|[\w.-]+)(?::\d{1,5})?|https?:)$/i

/**
 * A URL that is safe to show in a message. It omits everything before the last `@` or after a `#`, and the values after
 * a `?`, except for parameters that never contain a secret. A password that is not percent-encoded may contain any of
 * these characters, and slashes and commas as well. Hosts are shown only if all of them look like hosts, because a
 * login without its `@` would appear among them.
 *
 * @example
 * logger.info({ store: redactedUrl(process.env.TENURE_STORE ?? 'memory:') })
 */
export function redactedUrl(url: string): string {
  const withoutLogin = url.replace(/^([a-z][a-z0-9+.-]*:\/{0,2})?.*@/is, '$1***@')
  return withoutLogin
    .replace(/^([a-z][a-z0-9+.-]*:\/\/)([^/?#@]+)/i, (_, scheme: string, hosts: string) =>
      hosts.split(',').every((host) => plainHost.test(host)) ? `${scheme}${hosts}` : `${scheme}***`,
    )
    .replace(/#.*/s, '#***')
    .replace(/\?([^#]*)/, (_, query: string) => `?${query.split('&').map(redactedPair).join('&')}`)
}

function redactedPair(pair: string): string {
  const [, name, value = ''] = /^(\w+)=(.*)$/s.exec(pair) ?? []
  if (name === undefined) return '***'
  return plain.has(name) && /^[\w.:,*/-]*$/.test(value) ? pair : `${name}=***`
}
