/** The codes of the HTTP API; all but the last four are the document's own. */
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
} as const

/** One of the codes that an answer can carry. */
export type ServiceErrorCode = keyof typeof errorStatus

/** A request that is answered with an error. `details` are the further fields of the answer. */
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
