import { TenureError, type ErrorCode, type ErrorDetails } from '../../common/errors.ts'
import { objectOf } from '../../clients/http/body.ts'
import type { Head, HttpAnswer } from '../../clients/http/http-client.ts'

/** The service refused a request, or its answer does not match the request. */
export class AnswerError extends TenureError {
  readonly status: number
  /** How long the service asks the caller to wait. It is only a suggestion, because a leader has its own deadline. */
  readonly retryAfterMs: number | undefined

  constructor(
    code: ErrorCode,
    message: string,
    { status, retryAfterMs, ...details }: ErrorDetails & { status: number; retryAfterMs?: number | undefined },
  ) {
    // If another kind of server is at the address, retrying does not help.
    const passing = code === 'BACKEND_UNAVAILABLE' && (status < 300 || status >= 500)
    super(code, message, { retryable: code === 'RATE_LIMITED' || passing, ...details })
    this.status = status
    this.retryAfterMs = retryAfterMs
  }
}

/** Error codes of the service that a store passes through unchanged. */
const codes = ['INVALID_TTL', 'INVALID_REQUEST', 'NOT_FOUND', 'TOO_LARGE', 'RATE_LIMITED'] as const

const asAnotherNode = {
  option: 'identity',
  advice: 'Set the identity to the node name in the token or the certificate.',
}
const withoutRight = { advice: 'Ask the operator of the service for this permission, or use another token.' }
const noGroup = { option: 'election', advice: 'Correct the name, or create the group.' }

/** The error for an answer that is neither the expected one nor a refusal. */
export function errorOf(name: string, { status, headers, text }: HttpAnswer): AnswerError {
  const body = jsonOf(headers, text)
  const said = typeof body?.['error'] === 'string' ? body['error'] : undefined
  const message = typeof body?.['message'] === 'string' ? quote(body['message']) : undefined
  const retryAfterMs = retryAfterOf(body, headers)
  const wait = retryAfterMs === undefined ? '' : ` Retry after ${Math.ceil(retryAfterMs)} ms.`
  const error = (code: ErrorCode, what: string, details?: ErrorDetails) =>
    new AnswerError(code, `${name} ${what}`, { status, retryAfterMs, ...details })
  if (status === 401) {
    const why = message === undefined ? '' : ` ${message}`
    const what = `could not authenticate the caller (401). Check the token or the certificate.${why}`
    return error('UNAUTHORIZED', what, { option: 'token' })
  }
  if (status === 403) {
    const details = body?.['field'] === 'node_id' ? asAnotherNode : withoutRight
    return error(
      'UNAUTHORIZED',
      `denied the request (403). ${message ?? 'It gave no reason.'} ${details.advice}`,
      details,
    )
  }
  if (said === undefined)
    return error(
      status === 429 ? 'RATE_LIMITED' : 'BACKEND_UNAVAILABLE',
      `answered ${status}, but not in the format of an election service.${wait}`,
    )
  const code = codes.find((known) => known === said) ?? 'BACKEND_UNAVAILABLE'
  const what = `answered ${status} ${quote(said)}: ${message ?? 'no reason given.'}${wait}`
  return code === 'NOT_FOUND' ? error(code, `${what} ${noGroup.advice}`, noGroup) : error(code, what)
}

/** The error for an answer that cannot be understood. It counts as no answer. */
export function malformedResponse(name: string, what: string, status: number): AnswerError {
  return new AnswerError('BACKEND_UNAVAILABLE', `${name} sent a malformed response: ${what}.`, { status })
}

/** Parses a body that is declared as JSON. Undefined if it is not a JSON object. */
export function jsonOf(headers: Head['headers'], text: string): Record<string, unknown> | undefined {
  return /^application\/json\b/i.test(headers['content-type'] ?? '') ? objectOf(text) : undefined
}

function retryAfterOf(body: Record<string, unknown> | undefined, headers: Head['headers']): number | undefined {
  const given = body?.['retry_after_ms']
  if (typeof given === 'number' && given >= 0 && given < Infinity) return given
  const seconds = headers['retry-after']
  return seconds !== undefined && /^\d{1,9}$/.test(seconds) ? Number(seconds) * 1000 : undefined
}

/** Sanitizes external text, because it goes into logs and terminals. */
function quote(text: string): string {
  // oxlint-disable-next-line no-control-regex
  return text.replaceAll(/[\u0000-\u001f\u007f-\u009f]+/g, ' ').slice(0, 300)
}
