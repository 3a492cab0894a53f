import { TenureError, type ErrorCode } from '../../common/errors.ts'

interface KnownGcsFailure {
  readonly code: ErrorCode
  readonly retryable: boolean
  readonly text: string
}

/** Statuses that need more explanation than Google provides. */
const known: Readonly<Record<number, KnownGcsFailure>> = {
  401: { code: 'UNAUTHORIZED', retryable: false, text: 'Google Cloud Storage could not authenticate the caller' },
  403: {
    code: 'UNAUTHORIZED',
    retryable: false,
    text: 'Google Cloud Storage denied access. The documentation of this store lists the permissions that it needs',
  },
  404: { code: 'NOT_FOUND', retryable: false, text: 'The bucket does not exist. Create it' },
  429: { code: 'RATE_LIMITED', retryable: true, text: 'Google Cloud Storage is rate limiting requests' },
}

/** The error for an answer that is neither a success nor a failed condition. `place` names the bucket and prefix. */
export function gcsFailure(status: number, body: string, place: string): TenureError {
  const other: KnownGcsFailure = {
    code: 'BACKEND_UNAVAILABLE',
    retryable: true,
    text: `Google Cloud Storage answered ${status}`,
  }
  const { code, retryable, text } = known[status] ?? other
  return new TenureError(code, `${text} (${place}): ${messageIn(body)}`.replace(/\.?$/, '.'), { retryable })
}

function messageIn(body: string): string {
  try {
    const { error } = JSON.parse(body) as { error?: { message?: unknown } }
    if (typeof error?.message === 'string' && error.message) return error.message
  } catch {
    // The body does not come from Google, but from an intermediary.
  }
  return body.trim().slice(0, 200) || 'no reason given'
}
