import { isObject } from '@tenure/internal/objects'
import { TenureError } from '../../common/errors.ts'
import { MalformedResponse, objectOf } from '../http/body.ts'

/** The kind of failure, if a caller must react to it. */
export type EtcdReason = 'token' | 'denied' | 'compacted' | 'auth-disabled' | 'strange' | 'other'

/** etcd reported an error, or the answer does not come from etcd. */
export class EtcdError extends TenureError {
  override readonly name = 'EtcdError'
  readonly reason: EtcdReason

  constructor(
    reason: EtcdReason,
    code: TenureError['code'],
    message: string,
    options: { retryable?: boolean; cause?: unknown } = {},
  ) {
    super(code, message, options)
    this.reason = reason
  }
}

/** An error message from etcd for a call that it did not apply. */
interface EtcdErrorBody {
  readonly code: number
  readonly message: string
}

/** Converts an unsuccessful answer to an error. `peer` names the member. */
export function errorOf(peer: string, status: number, text: string): EtcdError {
  const complaint = complaintOf(objectOf(text))
  if (complaint) return etcdErrorOf(peer, complaint)
  if (status === 404) {
    const needed = 'Use etcd 3.4 or newer with its JSON gateway (--enable-grpc-gateway).'
    return other(`${peer} answered 404: it has no /v3 API. ${needed}`, false)
  }
  const retryable = status === 429 || status >= 500
  const said = `${peer} answered ${status}, but not in etcd's format. Check for a proxy in between.`
  return new EtcdError(retryable ? 'other' : 'strange', 'BACKEND_UNAVAILABLE', said, { retryable })
}

/** The error in a line of a stream. Undefined if it has none. */
export function streamErrorOf(peer: string, line: Record<string, unknown>): EtcdError | undefined {
  if (line['error'] === undefined) return undefined
  return etcdErrorOf(peer, complaintOf(line['error']) ?? { code: 2, message: 'the watch failed' })
}

/** The error for an answer that does not match the request. */
export function malformedResponse(peer: string, what: string): EtcdError {
  return other(`${peer} sent a malformed response: ${what}. Check that the address belongs to etcd.`, false)
}

/** Processes the body of an answer with `take`. Undefined is a body that is not a JSON object. */
export function understood<Body, T>(peer: string, body: Body | undefined, take: (body: Body) => T): T {
  if (body === undefined) throw malformedResponse(peer, 'it is not a JSON object')
  try {
    return take(body)
  } catch (error) {
    throw error instanceof MalformedResponse ? malformedResponse(peer, error.message) : error
  }
}

const inUrl = 'in a URL as etcd://user:password@host, or in TENURE_STORE_USER and TENURE_STORE_PASSWORD'

/** Recognizes errors by their text, which has been stable for many versions of etcd. */
export function etcdErrorOf(peer: string, { code, message }: EtcdErrorBody): EtcdError {
  const said = `${peer} answered: ${message.replace(/\.?$/, '.')}`
  if (/invalid auth token|revision of auth store is old|revision in header is old/.test(message) || code === 16) {
    return new EtcdError('token', 'UNAUTHORIZED', `${said} It rejected the token, even a new one.`)
  }
  if (/user name is empty/.test(message)) {
    return new EtcdError(
      'token',
      'UNAUTHORIZED',
      `${said} This etcd requires a user and a password: set both, ${inUrl}.`,
    )
  }
  if (/authentication is not enabled/.test(message)) return new EtcdError('auth-disabled', 'UNAUTHORIZED', said)
  if (/authentication failed/.test(message)) {
    return new EtcdError('denied', 'UNAUTHORIZED', `${said} The user name or the password is wrong.`)
  }
  if (/permission denied/.test(message) || code === 7) {
    const advice = 'Grant the user a role that may read and write all keys under the prefix.'
    return new EtcdError('denied', 'UNAUTHORIZED', `${said} ${advice}`)
  }
  if (/database space exceeded/.test(message)) {
    return other(`${said} etcd is full and refuses writes: compact and defragment it, then disarm its alarm.`, true)
  }
  if (/request is too large/.test(message)) return new EtcdError('other', 'TOO_LARGE', said)
  if (/required revision has been compacted/.test(message)) return compacted(peer)
  return other(said, unsettledCodes.has(code))
}

/** The watch requested a part of the history that etcd has compacted. */
export function compacted(peer: string): EtcdError {
  const text = `${peer} has compacted the revision at which the watch was to start.`
  return new EtcdError('compacted', 'BACKEND_UNAVAILABLE', text, { retryable: true })
}

/**
 * The gRPC codes after which a retry may succeed: canceled, unknown, deadline exceeded, resource exhausted, aborted,
 * internal, unavailable.
 */
const unsettledCodes = new Set([1, 2, 4, 8, 10, 13, 14])

function other(message: string, retryable: boolean): EtcdError {
  return new EtcdError('other', 'BACKEND_UNAVAILABLE', message, { retryable })
}

function complaintOf(body: unknown): EtcdErrorBody | undefined {
  if (!isObject(body)) return undefined
  const message = body['message'] ?? body['error']
  const code = body['code'] ?? body['grpc_code']
  return typeof message === 'string' && typeof code === 'number' ? { code, message } : undefined
}
