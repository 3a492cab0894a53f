import { messageOf } from '@tenure/internal/message'
import { isTenureError, TenureError, type ErrorCode } from '../../common/errors.ts'

interface KnownAzureFailure {
  readonly code: ErrorCode
  readonly retryable: boolean
  readonly text: string
}

/** The code of an error that Azure Storage answered, such as `BlobNotFound`. Empty if there was no such answer. */
export function azureCodeOf(error: unknown): string {
  const code: unknown = statusOf(error) === undefined ? undefined : Reflect.get(Object(error), 'code')
  return typeof code === 'string' ? code : ''
}

function statusOf(error: unknown): number | undefined {
  const status: unknown = error instanceof Error ? Reflect.get(error, 'statusCode') : undefined
  return typeof status === 'number' ? status : undefined
}

/** Converts an error of the client to a library error that says what to do. `place` names the container and prefix. */
export function azureFailure(error: unknown, place: string): Error {
  if (isTenureError(error)) return error
  const { code, retryable, text } = knownOf(error)
  // The SDK appends the headers of the answer to its message.
  const own = messageOf(error).split('\n')[0]?.trim() || azureCodeOf(error) || 'no reason given'
  return new TenureError(code, `${text} (${place}): ${own}`.replace(/\.?$/, '.'), { retryable, cause: error })
}

function knownOf(error: unknown): KnownAzureFailure {
  const status = statusOf(error)
  const code = azureCodeOf(error)
  if (/^(ContainerNotFound|ResourceNotFound)$/.test(code)) {
    return { code: 'NOT_FOUND', retryable: false, text: 'The container does not exist. Create it' }
  }
  if (
    status === 401 ||
    (status === 403 && /^(AuthenticationFailed|InvalidAuthenticationInfo|NoAuthenticationInformation)$/.test(code))
  ) {
    const text = 'Azure Storage could not authenticate the caller. Check the key, and whether the SAS has expired'
    return { code: 'UNAUTHORIZED', retryable: false, text }
  }
  if (status === 403) {
    const text = 'Azure Storage denied access. The documentation of this store lists the permissions that it needs'
    return { code: 'UNAUTHORIZED', retryable: false, text }
  }
  if (code.startsWith('Lease')) {
    const text = 'Another program holds a lease of Azure on this blob, so it cannot be written. Break that lease'
    return { code: 'BACKEND_UNAVAILABLE', retryable: true, text }
  }
  if (/Immutab|LegalHold/.test(code)) {
    const text = 'The container is immutable, so leases cannot be renewed. Use a container without such a policy'
    return { code: 'BACKEND_UNAVAILABLE', retryable: false, text }
  }
  if (status === 429 || /^(ServerBusy|OperationTimedOut)$/.test(code)) {
    return { code: 'RATE_LIMITED', retryable: true, text: 'Azure Storage is rate limiting requests' }
  }
  if (status === 413) return { code: 'TOO_LARGE', retryable: false, text: 'Azure Storage does not accept this size' }
  if (status === 400) return { code: 'INVALID_REQUEST', retryable: false, text: 'Azure Storage rejected the call' }
  const text = status === undefined ? 'Azure Storage cannot be reached' : `Azure Storage answered ${status}`
  return { code: 'BACKEND_UNAVAILABLE', retryable: true, text }
}
