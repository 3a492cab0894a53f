import { messageOf } from '@tenure/internal/message'
import { isTenureError, TenureError, type ErrorCode } from '../../common/errors.ts'

interface KnownNatsFailure {
  readonly code: ErrorCode
  readonly retryable: boolean
  readonly text: string
}

/** JetStream: the last revision of the key is not the expected one. The second means that a write is in progress. */
const wrongRevisions = new Set([10071, 10164])

/** True if the server refused a write because of its condition. It was certainly not applied. */
export function isRefusal(error: unknown): boolean {
  return wrongRevisions.has(Number(codeOf(error)))
}

/** Errors of JetStream, by their code. */
const known: Readonly<Record<number, KnownNatsFailure>> = {
  10059: {
    code: 'BACKEND_UNAVAILABLE',
    retryable: false,
    text: 'The bucket does not exist. Create it: nats kv add NAME --replicas=3 --storage=file',
  },
  10039: noJetStream(false),
  10076: noJetStream(false),
  10054: {
    code: 'TOO_LARGE',
    retryable: false,
    text: 'The record is larger than the bucket allows (max_value_size). Raise it',
  },
  10077: unavailable('The bucket is full (max_bytes) and refuses writes. Raise max_bytes, or delete other keys'),
  10047: unavailable('The server has no space left for JetStream and refuses writes. Raise max_file_store'),
  10023: unavailable('The server has no resources left for JetStream'),
  10109: { code: 'BACKEND_UNAVAILABLE', retryable: false, text: 'The bucket is sealed and refuses writes' },
}

/** Errors of the client, by their name. */
const named: Readonly<Record<string, KnownNatsFailure>> = {
  AuthorizationError: unauthorized('NATS rejected the credentials'),
  UserAuthenticationExpiredError: unauthorized('The credentials for NATS have expired'),
  PermissionViolationError: unauthorized(
    'The NATS user lacks a permission. It needs to publish to "$KV.BUCKET.>", "$JS.API.STREAM.INFO.KV_BUCKET", "$JS.API.DIRECT.GET.KV_BUCKET" and "$JS.API.CONSUMER.>", and to subscribe to "_INBOX.>"',
  ),
  JetStreamNotEnabled: unavailable(
    'No stream answered: JetStream is not enabled, or the bucket does not exist or has no leader at the moment',
  ),
  NoRespondersError: unavailable('JetStream did not answer: it is not enabled, or has no leader at the moment'),
  ClosedConnectionError: unavailable('The connection to NATS is closed'),
  DrainingConnectionError: unavailable('The connection to NATS is being closed'),
  TimeoutError: { code: 'TIMEOUT', retryable: true, text: 'NATS did not answer in time' },
}

function unavailable(text: string): KnownNatsFailure {
  return { code: 'BACKEND_UNAVAILABLE', retryable: true, text }
}

function unauthorized(text: string): KnownNatsFailure {
  return { code: 'UNAUTHORIZED', retryable: false, text }
}

function noJetStream(retryable: boolean): KnownNatsFailure {
  const text = 'JetStream is not enabled on this server or for this account. Start the server with -js'
  return { code: 'BACKEND_UNAVAILABLE', retryable, text }
}

/** Converts an error of the client to a library error that says what to do. `place` names the bucket. */
export function failureOf(error: unknown, place: string): Error {
  if (isTenureError(error)) return error
  if (error instanceof Error && error.name === 'AbortError') return error
  const own = messageOf(error).trim() || 'no reason given'
  const { code, retryable, text } = knownFailure(error)
  return new TenureError(code, `${text} (${place}): ${own}`.replace(/\.?$/, '.'), { retryable, cause: error })
}

function knownFailure(error: unknown): KnownNatsFailure {
  const byCode = known[Number(codeOf(error))]
  if (byCode) return byCode
  // The client wraps the cause of a failed request.
  for (let one = error; one instanceof Error; one = one.cause) {
    const byName = named[one.name]
    if (byName) return byName
    if (/batch direct require server/.test(one.message)) {
      const text = 'This store needs nats-server 2.11 or newer'
      return { code: 'BACKEND_UNAVAILABLE', retryable: false, text }
    }
    if (/max_payload/.test(one.message)) {
      return { code: 'TOO_LARGE', retryable: false, text: 'The record is larger than max_payload of the server' }
    }
  }
  return unavailable(Number(codeOf(error)) > 0 ? 'NATS rejected the call' : 'The connection to NATS failed')
}

function codeOf(error: unknown): unknown {
  return error instanceof Error ? Reflect.get(error, 'code') : undefined
}
