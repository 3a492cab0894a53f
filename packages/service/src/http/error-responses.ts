/** Error responses: one shape for all errors. */
import type { FastifyError, FastifyRequest } from 'fastify'
import { STATUS_CODES, type IncomingMessage, type ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { systemClock } from '../common/clock.ts'
import { ServiceError, type ServiceErrorCode } from '../common/errors.ts'
import type { RequestLog } from '../operation/logging.ts'
import type { App } from './service.ts'

export type Reply = Parameters<Parameters<App['setErrorHandler']>[0]>[2]

export function answerError(error: unknown, request: FastifyRequest, reply: Reply, log: RequestLog): unknown {
  const known = error instanceof ServiceError ? error : translate(error as FastifyError)
  if (known.status === 401) void reply.header('www-authenticate', 'Bearer')
  log.note(request, known)
  if (known.status === 413) readOn(request, reply)
  const { retry_after_ms: retryAfterMs } = known.details
  if (typeof retryAfterMs === 'number') void reply.header('retry-after', Math.ceil(retryAfterMs / 1000))
  return (
    reply
      .code(known.status)
      // Set this header here too, because no hook has run for paths that cannot be parsed.
      .header('cache-control', 'no-store')
      .send({ ok: false, error: known.code, message: known.message, ...known.details, request_id: request.id })
  )
}

/**
 * Reads and drops the rest of the body. A client that is still sending would lose the response if the connection closed
 * at once.
 */
function readOn({ raw }: FastifyRequest, reply: Reply): void {
  void reply.removeHeader('connection')
  raw.resume()
  systemClock.setTimer(1_000, () => void (raw.complete || raw.destroy()), { background: true })
}

/** Translates errors from the framework into the service's own. */
function translate(error: FastifyError): ServiceError {
  const { code, statusCode = 500, validation } = error
  if (validation) {
    const { additionalProperty: unknown } = validation[0]?.params ?? {}
    const text = typeof unknown === 'string' ? ` ${JSON.stringify(unknown.slice(0, 64))} is not a known field.` : ''
    return new ServiceError('INVALID_REQUEST', `${error.message}.${text}`)
  }
  if (code === 'FST_ERR_CTP_BODY_TOO_LARGE') return new ServiceError('TOO_LARGE', 'The body is too large.')
  // The framework would repeat the whole path.
  if (code === 'FST_ERR_BAD_URL' || code === 'FST_ERR_MAX_PARAM_LENGTH') {
    return new ServiceError('INVALID_REQUEST', 'The path is not valid.')
  }
  if (statusCode >= 400 && statusCode < 500) {
    return new ServiceError('INVALID_REQUEST', error.message, { status: statusCode })
  }
  // Do not expose internals.
  return new ServiceError('BACKEND_UNAVAILABLE', 'The service failed to process this request.', { cause: error })
}

interface Broken {
  readonly status: number
  readonly error: ServiceErrorCode
  readonly message: string
}
const broken: Readonly<Record<string, Broken>> = {
  HPE_HEADER_OVERFLOW: { status: 431, error: 'TOO_LARGE', message: 'The headers are too large.' },
  HPE_CHUNK_EXTENSIONS_OVERFLOW: { status: 413, error: 'TOO_LARGE', message: 'The chunk extensions are too large.' },
  ERR_HTTP_REQUEST_TIMEOUT: { status: 408, error: 'INVALID_REQUEST', message: 'The request took too long to arrive.' },
}
const malformed: Broken = { status: 400, error: 'INVALID_REQUEST', message: 'This is not a valid HTTP request.' }

/** Answers bytes that are not a request, and closes the connection. */
export function answerMalformed(error: Error & { readonly code?: string }, socket: Duplex): void {
  // Internal to Node: the response in progress on this socket.
  const { _httpMessage: current } = socket as { _httpMessage?: { headersSent: boolean; req: IncomingMessage } | null }
  // The invalid bytes follow a complete request, and a response to them would look like the response to that request.
  const belongsToOther = current != null && (current.headersSent || current.req.complete)
  // Any other error is a TLS error. Bytes written before the handshake are never sent, and would keep the connection
  // open.
  const isHttp = error.code?.startsWith('HPE_') === true || error.code === 'ERR_HTTP_REQUEST_TIMEOUT'
  if (!isHttp || !socket.writable || belongsToOther) return void socket.destroy()
  const { status, ...rest } = broken[error.code ?? ''] ?? malformed
  const body = JSON.stringify({ ok: false, ...rest })
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    'content-type: application/json; charset=utf-8',
    `content-length: ${Buffer.byteLength(body)}`,
    'cache-control: no-store',
    'connection: close',
  ]
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`, () => socket.destroy())
}

/** Answers a request with an unsupported Expect header. Without this, Node would answer it without a body. */
export function refuseExpectation(_request: IncomingMessage, response: ServerResponse): void {
  const message = 'The only supported expectation is 100-continue.'
  const body = JSON.stringify({ ok: false, error: 'INVALID_REQUEST', message })
  const headers = { 'content-type': 'application/json; charset=utf-8', 'content-length': body.length }
  response.writeHead(417, { ...headers, 'cache-control': 'no-store', connection: 'close' }).end(body)
}

/** Rejects a request without processing it, and closes its connection. */
export function refuseBusy(response: ServerResponse, message: string): void {
  const retry_after_ms = 1_000
  const body = JSON.stringify({ ok: false, error: 'RATE_LIMITED', message, retry_after_ms })
  const headers = { 'content-type': 'application/json; charset=utf-8', 'content-length': Buffer.byteLength(body) }
  response.writeHead(429, { ...headers, 'retry-after': '1', connection: 'close' }).end(body)
}
