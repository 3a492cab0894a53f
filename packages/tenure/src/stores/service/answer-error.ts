import { TenureError, type ErrorCode, type ErrorDetails } from '../../errors.ts'
import { objectOf } from '../../http/body.ts'
import type { Head, HttpAnswer } from '../../http/http-client.ts'

/** The service refused a request, or its answer does not fit what was asked. */
export class AnswerError extends TenureError {
  readonly status: number
  /** How long the service asks the caller to wait. That binds nobody: a leader has its own deadline. */
  readonly retryAfterMs: number | undefined

  constructor(
    code: ErrorCode,
    message: string,
    { status, retryAfterMs, ...details }: ErrorDetails & { status: number; retryAfterMs?: number | undefined },
  ) {
    // Another kind of server at the address will not become an election service.
    const passing = code === 'BACKEND_UNAVAILABLE' && (status < 300 || status >= 500)
    super(code, message, { retryable: code === 'RATE_LIMITED' || passing, ...details })
    this.status = status
    this.retryAfterMs = retryAfterMs
  }
}

/** Codes of the service that a store reports as they are. */
const codes = ['INVALID_TTL', 'INVALID_REQUEST', 'NOT_FOUND', 'TOO_LARGE', 'RATE_LIMITED'] as const

const asAnotherNode = {
  option: 'identity',
  advice: 'Choose the identity as the token or the certificate names this node.',
}
const withoutRight = { advice: 'Ask whoever runs the service for that right, or show another token.' }
const noGroup = { option: 'election', advice: 'Correct the name, or have the group created.' }

/** The error that an answer reports, where it is neither what was asked for nor a refusal. */
export function errorOf(name: string, { status, headers, text }: HttpAnswer): AnswerError {
  const body = jsonOf(headers, text)
  const said = typeof body?.['error'] === 'string' ? body['error'] : undefined
  const message = typeof body?.['message'] === 'string' ? quote(body['message']) : undefined
  const retryAfterMs = retryAfterOf(body, headers)
  const wait = retryAfterMs === undefined ? '' : ` It asks to wait ${Math.ceil(retryAfterMs)} ms.`
  const error = (code: ErrorCode, what: string, details?: ErrorDetails) =>
    new AnswerError(code, `${name} ${what}`, { status, retryAfterMs, ...details })
  if (status === 401) {
    const why = message === undefined ? '' : ` ${message}`
    const what = `does not know who asks (401). Look at the token or the certificate.${why}`
    return error('UNAUTHORIZED', what, { option: 'token' })
  }
  if (status === 403) {
    const details = body?.['field'] === 'node_id' ? asAnotherNode : withoutRight
    return error('UNAUTHORIZED', `forbids it (403). ${message ?? 'It does not say why.'} ${details.advice}`, details)
  }
  if (said === undefined)
    return error(
      status === 429 ? 'RATE_LIMITED' : 'BACKEND_UNAVAILABLE',
      `gave an answer (${status}) that is not one of an election service.${wait}`,
    )
  const code = codes.find((known) => known === said) ?? 'BACKEND_UNAVAILABLE'
  const what = `answered ${status} ${quote(said)}: ${message ?? 'it does not say why.'}${wait}`
  return code === 'NOT_FOUND' ? error(code, `${what} ${noGroup.advice}`, noGroup) : error(code, what)
}

/** An answer that is not understood counts as no answer. */
export function misunderstood(name: string, what: string, status: number): AnswerError {
  return new AnswerError('BACKEND_UNAVAILABLE', `${name} gave an answer that is not understood: ${what}.`, { status })
}

/** A body that says it is JSON, and is an object. */
export function jsonOf(headers: Head['headers'], text: string): Record<string, unknown> | undefined {
  return /^application\/json\b/i.test(headers['content-type'] ?? '') ? objectOf(text) : undefined
}

function retryAfterOf(body: Record<string, unknown> | undefined, headers: Head['headers']): number | undefined {
  const given = body?.['retry_after_ms']
  if (typeof given === 'number' && given >= 0 && given < Infinity) return given
  const seconds = headers['retry-after']
  return seconds !== undefined && /^\d{1,9}$/.test(seconds) ? Number(seconds) * 1000 : undefined
}

/** What comes from outside goes into logs and terminals. */
function quote(text: string): string {
  // oxlint-disable-next-line no-control-regex
  return text.replaceAll(/[\u0000-\u001f\u007f-\u009f]+/g, ' ').slice(0, 300)
}
