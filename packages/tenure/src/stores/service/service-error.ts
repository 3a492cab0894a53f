import { TenureError, type ErrorCode } from '../../errors.ts'
import { objectOf } from '../../http/body.ts'
import type { Head, HttpAnswer } from '../../http/http-client.ts'

/** The service said no, or something that is no answer to what was asked. */
export class ServiceError extends TenureError {
  readonly status: number
  /** How long the service asks to be left alone. Nobody is bound to it: a leader has its own deadline. */
  readonly retryAfterMs: number | undefined

  constructor(
    code: ErrorCode,
    message: string,
    { status, retryAfterMs }: { status: number; retryAfterMs?: number | undefined },
  ) {
    // Another kind of server at the address stays what it is.
    const passing = code === 'BACKEND_UNAVAILABLE' && (status < 300 || status >= 500)
    super(code, message, { retryable: code === 'RATE_LIMITED' || passing })
    this.status = status
    this.retryAfterMs = retryAfterMs
  }
}

/** Codes of the service that are codes of this library too. */
const codes = ['INVALID_TTL', 'INVALID_REQUEST', 'NOT_FOUND', 'TOO_LARGE', 'RATE_LIMITED'] as const

/** What an answer says that is neither what was asked for nor a refusal. */
export function errorOf(name: string, { status, headers, text }: HttpAnswer): ServiceError {
  const body = jsonOf(headers, text)
  const said = typeof body?.['error'] === 'string' ? body['error'] : undefined
  const message = typeof body?.['message'] === 'string' ? quote(body['message']) : undefined
  const retryAfterMs = retryAfterOf(body, headers)
  const wait = retryAfterMs === undefined ? '' : ` It asks to wait ${retryAfterMs} ms.`
  const error = (code: ErrorCode, what: string) => new ServiceError(code, `${name} ${what}`, { status, retryAfterMs })
  if (status === 401) {
    const why = message === undefined ? '' : ` ${message}`
    return error('UNAUTHORIZED', `does not know who asks (401). Look at the token or the certificate.${why}`)
  }
  if (status === 403) return error('UNAUTHORIZED', `forbids it (403). ${message ?? 'It does not say why.'}`)
  if (said === undefined)
    return error(
      status === 429 ? 'RATE_LIMITED' : 'BACKEND_UNAVAILABLE',
      `gave an answer (${status}) that is not one of an election service.${wait}`,
    )
  const code = codes.find((known) => known === said) ?? 'BACKEND_UNAVAILABLE'
  return error(code, `answered ${status} ${quote(said)}: ${message ?? 'it does not say why.'}${wait}`)
}

/** An answer that makes no sense. Its text goes on after "not understood:". */
export class Nonsense extends Error {}

/** An answer that is not understood counts as no answer. */
export function misunderstood(name: string, what: string, status: number): ServiceError {
  return new ServiceError('BACKEND_UNAVAILABLE', `${name} gave an answer that is not understood: ${what}.`, { status })
}

/** A body that says it is JSON, and is an object. */
export function jsonOf(headers: Head['headers'], text: string): Record<string, unknown> | undefined {
  return /^application\/json\b/i.test(headers['content-type'] ?? '') ? objectOf(text) : undefined
}

function retryAfterOf(body: Record<string, unknown> | undefined, headers: Head['headers']): number | undefined {
  const told = body?.['retry_after_ms']
  if (typeof told === 'number' && told >= 0 && told < Infinity) return told
  const seconds = headers['retry-after']
  return seconds !== undefined && /^\d{1,9}$/.test(seconds) ? Number(seconds) * 1000 : undefined
}

/** What comes from outside goes into logs and terminals. */
function quote(text: string): string {
  // oxlint-disable-next-line no-control-regex
  return text.replaceAll(/[\u0000-\u001f\u007f-\u009f]+/g, ' ').slice(0, 300)
}
