import type { ErrorCode } from 'tenure'

/**
 * The error codes of the HTTP API, a subset of the codes that all packages share. All but the last four are in the
 * specification.
 */
export const errorStatus = {
  NOT_LEADER: 409,
  CONFLICT: 409,
  INVALID_TTL: 400,
  UNAUTHORIZED: 403,
  BACKEND_UNAVAILABLE: 503,
  INVALID_REQUEST: 400,
  NOT_FOUND: 404,
  TOO_LARGE: 413,
  RATE_LIMITED: 429,
} as const satisfies Partial<Record<ErrorCode, number>>

/** An error code that a response can have. */
export type ServiceErrorCode = keyof typeof errorStatus

/** An error that is sent as the response to a request. `details` holds additional fields of the response body. */
export class ServiceError extends Error {
  override readonly name = 'ServiceError'
  readonly code: ServiceErrorCode
  readonly status: number
  readonly details: Readonly<Record<string, unknown>>

  constructor(
    code: ServiceErrorCode,
    message: string,
    options: { status?: number; details?: Readonly<Record<string, unknown>>; cause?: unknown } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.code = code
    this.status = options.status ?? errorStatus[code]
    this.details = options.details ?? {}
  }
}

/**
 * Creates the error for an invalid option, or for an option that names an invalid file. The message consists of
 * `option`, `link`, and `rule`.
 */
export function wrongOption(option: string, link: string, rule: string, cause?: unknown): TypeError {
  const error = new TypeError(`${option}${link}${rule}`, cause === undefined ? undefined : { cause })
  return Object.assign(error, { code: 'INVALID_OPTION' as const satisfies ErrorCode, retryable: false, option, rule })
}
