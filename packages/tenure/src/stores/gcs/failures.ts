import { TenureError, type ErrorCode } from '../../errors.ts'

interface Known {
  readonly code: ErrorCode
  readonly retryable: boolean
  readonly text: string
}

/** What is worth more words than Google has for it. */
const known: Readonly<Record<number, Known>> = {
  401: { code: 'UNAUTHORIZED', retryable: false, text: 'Google Cloud Storage does not know the caller' },
  403: {
    code: 'UNAUTHORIZED',
    retryable: false,
    text: 'Google Cloud Storage forbids it. The page of this store lists the rights that it needs',
  },
  404: { code: 'NOT_FOUND', retryable: false, text: 'There is no such bucket. Create it' },
  429: { code: 'RATE_LIMITED', retryable: true, text: 'Google Cloud Storage takes no more calls for now' },
}

/** An answer that is neither success nor a condition that did not hold. `place` is what the call was about. */
export function gcsFailure(status: number, body: string, place: string): TenureError {
  const other: Known = { code: 'BACKEND_UNAVAILABLE', retryable: true, text: `Google Cloud Storage answers ${status}` }
  const { code, retryable, text } = known[status] ?? other
  return new TenureError(code, `${text} (${place}): ${messageIn(body)}`.replace(/\.?$/, '.'), { retryable })
}

function messageIn(body: string): string {
  try {
    const { error } = JSON.parse(body) as { error?: { message?: unknown } }
    if (typeof error?.message === 'string' && error.message) return error.message
  } catch {
    // Not what Google sends, but something on the way.
  }
  return body.trim().slice(0, 200) || 'it did not say why'
}
