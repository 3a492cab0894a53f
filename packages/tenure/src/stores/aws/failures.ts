import { messageOf } from '@tenure/internal/message'
import { isTenureError, TenureError, type ErrorCode } from '../../common/errors.ts'

interface KnownAwsFailure {
  readonly code: ErrorCode
  readonly retryable: boolean
  readonly text: string
}

const forbidden = /^(AccessDenied|AllAccessDisabled|Forbidden|MissingAuthenticationToken|NotAuthorized|OptInRequired)/
const unknownCaller =
  /^(UnrecognizedClient|InvalidClientTokenId|InvalidSignature|SignatureDoesNotMatch|InvalidAccessKeyId|ExpiredToken|InvalidToken|TokenRefreshRequired|IncompleteSignature|CredentialsProviderError)/
const throttled =
  /^(Throttl|ProvisionedThroughputExceeded|RequestLimitExceeded|SlowDown|TooManyRequests|BandwidthLimit)/

/** The name of an AWS error. Empty if the error is not from AWS. */
export function awsNameOf(error: unknown): string {
  return error instanceof Error && error.name !== 'Error' ? error.name : ''
}

/** The HTTP status of an error response. Undefined if there was no response. */
export function awsStatusOf(error: unknown): number | undefined {
  const metadata: unknown = error instanceof Error ? Reflect.get(error, '$metadata') : undefined
  const status: unknown = typeof metadata === 'object' && metadata ? Reflect.get(metadata, 'httpStatusCode') : undefined
  return typeof status === 'number' ? status : undefined
}

/** Converts an error from the client to a library error that says what to do. `place` names the table or bucket. */
export function awsFailure(error: unknown, place: string, missing: string): Error {
  if (isTenureError(error)) return error
  const { code, retryable, text } = knownOf(error, missing)
  const own = messageOf(error).trim() || awsNameOf(error) || 'no reason given'
  return new TenureError(code, `${text} (${place}): ${own}`.replace(/\.?$/, '.'), { retryable, cause: error })
}

function knownOf(error: unknown, missing: string): KnownAwsFailure {
  const name = awsNameOf(error)
  if (forbidden.test(name) || awsStatusOf(error) === 403) {
    const text = 'AWS denied access. The documentation of this store lists the permissions that it needs'
    return { code: 'UNAUTHORIZED', retryable: false, text }
  }
  if (unknownCaller.test(name)) {
    return {
      code: 'UNAUTHORIZED',
      retryable: false,
      text: 'AWS could not authenticate the caller, or there are no credentials',
    }
  }
  if (/^(ResourceNotFound|NoSuchBucket|TableNotFound)/.test(name)) {
    return { code: 'NOT_FOUND', retryable: false, text: missing }
  }
  if (throttled.test(name)) return { code: 'RATE_LIMITED', retryable: true, text: 'AWS is rate limiting requests' }
  if (/^(Validation|SerializationException|InvalidRequest|InvalidArgument)/.test(name)) {
    return { code: 'INVALID_REQUEST', retryable: false, text: 'AWS rejected the call as invalid' }
  }
  const isAnswer = awsStatusOf(error) !== undefined
  const text = isAnswer ? 'AWS failed' : 'AWS cannot be reached'
  return { code: 'BACKEND_UNAVAILABLE', retryable: true, text }
}
