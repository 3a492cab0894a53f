import { isObject } from '@tenure/internal/objects'
import { TenureError } from '../errors.ts'
import { objectOf } from '../http/body.ts'

/** What kind of no it was, where somebody has to act on it. */
export type EtcdReason = 'token' | 'denied' | 'compacted' | 'auth-disabled' | 'strange' | 'other'

/** etcd answered no, or something that is not an answer of etcd. */
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

/** What etcd says of a call that it did not carry out. */
interface Complaint {
  readonly code: number
  readonly message: string
}

/** An unsuccessful answer as an error. `peer` names who answered. */
export function errorOf(peer: string, status: number, text: string): EtcdError {
  const complaint = complaintOf(objectOf(text))
  if (complaint) return complaintError(peer, complaint)
  if (status === 404) {
    const needed = 'It must be etcd 3.4 or newer, with its JSON gateway (--enable-grpc-gateway).'
    return other(`${peer} answered 404: there is no /v3. ${needed}`, false)
  }
  const retryable = status === 429 || status >= 500
  const said = `${peer} answered ${status}, which is not an answer of etcd. Is there a proxy in between?`
  return new EtcdError(retryable ? 'other' : 'strange', 'BACKEND_UNAVAILABLE', said, { retryable })
}

/** The error in a line of a stream, if it has one. */
export function streamErrorOf(peer: string, line: Record<string, unknown>): EtcdError | undefined {
  if (line['error'] === undefined) return undefined
  return complaintError(peer, complaintOf(line['error']) ?? { code: 2, message: 'the watch failed' })
}

/** An answer that does not mean what was asked for. */
export function misunderstood(peer: string, what: string): EtcdError {
  return other(
    `${peer} gave an answer that is not understood: ${what}. Does something else than etcd answer there?`,
    false,
  )
}

const inUrl = 'in a URL as etcd://user:password@host, or in TENURE_STORE_USER and TENURE_STORE_PASSWORD'

/** etcd names the reasons of its complaints in words, the same ones for many versions. */
export function complaintError(peer: string, { code, message }: Complaint): EtcdError {
  const said = `${peer} answered: ${message.replace(/\.?$/, '.')}`
  if (/invalid auth token|auth revision in header is old/.test(message) || code === 16) {
    return new EtcdError('token', 'UNAUTHORIZED', `${said} The token was not accepted, not even a new one.`)
  }
  if (/user name is empty/.test(message)) {
    return new EtcdError('token', 'UNAUTHORIZED', `${said} This etcd wants a user and a password: give both, ${inUrl}.`)
  }
  if (/authentication is not enabled/.test(message)) return new EtcdError('auth-disabled', 'UNAUTHORIZED', said)
  if (/authentication failed/.test(message)) {
    return new EtcdError('denied', 'UNAUTHORIZED', `${said} The user or its password is wrong.`)
  }
  if (/permission denied/.test(message) || code === 7) {
    const advice = 'Grant the user a role that may read and write all keys below the prefix.'
    return new EtcdError('denied', 'UNAUTHORIZED', `${said} ${advice}`)
  }
  if (/database space exceeded/.test(message)) {
    return other(`${said} etcd is full and takes no writes: compact and defragment it, then disarm its alarm.`, true)
  }
  if (/request is too large/.test(message)) return new EtcdError('other', 'TOO_LARGE', said)
  if (/required revision has been compacted/.test(message)) return compacted(peer)
  return other(said, unsettledCodes.has(code))
}

/** The watch asked for a part of the history that etcd has thrown away. */
export function compacted(peer: string): EtcdError {
  const text = `${peer} has compacted what the watch was to begin with.`
  return new EtcdError('compacted', 'BACKEND_UNAVAILABLE', text, { retryable: true })
}

/** Cancelled, unknown, deadline, exhausted, aborted, internal, unavailable: another try may do better. */
const unsettledCodes = new Set([1, 2, 4, 8, 10, 13, 14])

function other(message: string, retryable: boolean): EtcdError {
  return new EtcdError('other', 'BACKEND_UNAVAILABLE', message, { retryable })
}

function complaintOf(body: unknown): Complaint | undefined {
  if (!isObject(body)) return undefined
  const message = body['message'] ?? body['error']
  const code = body['code'] ?? body['grpc_code']
  return typeof message === 'string' && typeof code === 'number' ? { code, message } : undefined
}
