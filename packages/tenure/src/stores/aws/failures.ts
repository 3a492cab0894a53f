import { messageOf } from '@tenure/internal/message'
import { isTenureError, TenureError, type ErrorCode } from '../../errors.ts'

interface Known {
  readonly code: ErrorCode
  readonly retryable: boolean
  readonly text: string
}

const forbidden = /^(AccessDenied|AllAccessDisabled|Forbidden|MissingAuthenticationToken|NotAuthorized|OptInRequired)/
const unknownCaller =
  /^(UnrecognizedClient|InvalidClientTokenId|InvalidSignature|SignatureDoesNotMatch|InvalidAccessKeyId|ExpiredToken|InvalidToken|TokenRefreshRequired|IncompleteSignature|CredentialsProviderError)/
const throttled =
  /^(Throttl|ProvisionedThroughputExceeded|RequestLimitExceeded|SlowDown|TooManyRequests|BandwidthLimit)/

/** The name that AWS gives to an error; empty if the error is not from AWS. */
export function awsNameOf(error: unknown): string {
  return error instanceof Error && error.name !== 'Error' ? error.name : ''
}

/** The HTTP status of an answer that was an error, if there was an answer. */
export function awsStatusOf(error: unknown): number | undefined {
  const metadata: unknown = error instanceof Error ? Reflect.get(error, '$metadata') : undefined
  const status: unknown = typeof metadata === 'object' && metadata ? Reflect.get(metadata, 'httpStatusCode') : undefined
  return typeof status === 'number' ? status : undefined
}

/** What a client threw, as an error of this library that says what to do. `place` is what the call was about. */
export function awsFailure(error: unknown, place: string, missing: string): Error {
  if (isTenureError(error)) return error
  const { code, retryable, text } = knownOf(error, missing)
  const own = messageOf(error).trim() || awsNameOf(error) || 'it did not say why'
  return new TenureError(code, `${text} (${place}): ${own}`.replace(/\.?$/, '.'), { retryable, cause: error })
}

function knownOf(error: unknown, missing: string): Known {
  const name = awsNameOf(error)
  if (forbidden.test(name) || awsStatusOf(error) === 403) {
    const text = 'AWS forbids it. The page of this store lists the rights that it needs'
    return { code: 'UNAUTHORIZED', retryable: false, text }
  }
  if (unknownCaller.test(name)) {
    return { code: 'UNAUTHORIZED', retryable: false, text: 'AWS does not know the caller, or there are no credentials' }
  }
  if (/^(ResourceNotFound|NoSuchBucket|TableNotFound)/.test(name)) {
    return { code: 'NOT_FOUND', retryable: false, text: missing }
  }
  if (throttled.test(name)) return { code: 'RATE_LIMITED', retryable: true, text: 'AWS takes no more calls for now' }
  if (/^(Validation|SerializationException|InvalidRequest|InvalidArgument)/.test(name)) {
    return { code: 'INVALID_REQUEST', retryable: false, text: 'AWS does not accept the call' }
  }
  const isAnswer = awsStatusOf(error) !== undefined
  const text = isAnswer ? 'AWS failed' : 'AWS cannot be reached'
  return { code: 'BACKEND_UNAVAILABLE', retryable: true, text }
}
