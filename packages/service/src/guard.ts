/** What is wrong with a request before anybody asks what it wants. */
import { STATUS_CODES, type IncomingMessage, type ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { ServiceError, type ServiceErrorCode } from './errors.ts'

const mostHeaders = 100
/** Each of these must mean one thing to everybody between the client and here. */
const single = new Map(
  [
    'host',
    'authorization',
    'content-type',
    'content-length',
    'content-encoding',
    'transfer-encoding',
    'origin',
    'last-event-id',
    'tenure-cluster-id',
  ].map((name, index) => [name, 1 << index]),
)
const singleLengths = new Set([...single.keys()].map(({ length }) => length))
const withBody = new Set(['POST', 'PUT', 'PATCH'])
/** Exported for the test of all patterns. */
export const jsonType = /^application\/json[ \t]*(?:;[ \t]*charset="?utf-8"?[ \t]*)?$/i

/** Checks the head of each request. */
export class Guard {
  readonly #allowedHosts: ReadonlySet<string> | undefined

  /** Without hosts every one is allowed. */
  constructor(allowedHosts: readonly string[] | undefined) {
    this.#allowedHosts = allowedHosts && new Set(allowedHosts.map((host) => host.toLowerCase()))
  }

  /** `isRefused`: the path is there, the method is not; of its body nothing will be read. */
  check(request: IncomingMessage, isRefused: boolean): void {
    const { headers, rawHeaders, url = '', method = '' } = request
    if (rawHeaders.length > 2 * mostHeaders) {
      throw new ServiceError('TOO_LARGE', `A request has at most ${mostHeaders} headers.`, { status: 431 })
    }
    checkDuplicates(rawHeaders)
    // A proxy that understood it in another way would see other requests than this service.
    const encoding = headers['transfer-encoding']
    if (encoding !== undefined && (encoding.toLowerCase() !== 'chunked' || request.httpVersion !== '1.1')) {
      throw invalid('The only transfer encoding is chunked, in HTTP/1.1.')
    }
    if (!url.startsWith('/')) throw invalid('The target of a request must be a path.')
    this.#checkHost(headers.host)
    if (isRefused) return
    if (withBody.has(method)) checkType(headers)
    else if (encoding !== undefined || (headers['content-length'] ?? '0') !== '0') {
      throw invalid(`A ${method} has no body.`)
    }
    if (headers.origin !== undefined && method !== 'GET' && method !== 'HEAD') this.#checkOrigin(headers)
  }

  /** A page whose name was made to lead here is of another host, however it got here. */
  #checkHost(host: string | undefined): void {
    if (host === undefined || host === '') throw invalid('A request must name its host.')
    if (!this.#allowedHosts || this.#allowedHosts.has(withoutPort(host).toLowerCase())) return
    throw new ServiceError('UNAUTHORIZED', 'This service does not answer to this host name.')
  }

  /** A browser says for whose page it asks. Pages of others change nothing. */
  #checkOrigin({ origin = '', host = '' }: IncomingMessage['headers']): void {
    const asked = URL.canParse(origin) ? new URL(origin).host : ''
    const own = asked === host.toLowerCase() || this.#allowedHosts?.has(asked) === true
    if (asked === '' || !own) throw new ServiceError('UNAUTHORIZED', 'Pages of other hosts may not do this.')
  }
}

function checkDuplicates(rawHeaders: readonly string[]): void {
  let seen = 0
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index] ?? ''
    if (!singleLengths.has(name.length)) continue
    const bit = single.get(name) ?? single.get(name.toLowerCase()) ?? 0
    if ((seen & bit) !== 0) throw invalid(`A request has one ${name.toLowerCase()} at most.`)
    seen |= bit
  }
}

/** Browsers send other types to other hosts without asking first. */
function checkType(headers: IncomingMessage['headers']): void {
  const { 'content-type': type = '', 'content-encoding': encoding = 'identity' } = headers
  const known = type === 'application/json' || jsonType.test(type)
  if (known && encoding.toLowerCase() === 'identity') return
  const text = 'The body must be JSON: content-type application/json in UTF-8, without a content-encoding.'
  throw new ServiceError('INVALID_REQUEST', text, { status: 415 })
}

function withoutPort(host: string): string {
  const colon = host.lastIndexOf(':')
  return colon > host.lastIndexOf(']') ? host.slice(0, colon) : host
}

function invalid(text: string): ServiceError {
  return new ServiceError('INVALID_REQUEST', text)
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
const malformed: Broken = { status: 400, error: 'INVALID_REQUEST', message: 'This is not HTTP.' }

/** Answers what could not be read as a request, and closes the connection. */
export function answerBroken(error: Error & { readonly code?: string }, socket: Duplex): void {
  // Known to Node alone: the answer that is under way on this socket.
  const { _httpMessage: current } = socket as { _httpMessage?: { headersSent: boolean; req: IncomingMessage } | null }
  // What is broken came after a request that is whole: an answer would be taken for the answer to that one.
  const belongsToOther = current != null && (current.headersSent || current.req.complete)
  // An error of TLS: what is written before its handshake is never sent, and would keep the connection for ever.
  const isHttp = error.code?.startsWith('HPE_') === true || error.code === 'ERR_HTTP_REQUEST_TIMEOUT'
  if (!isHttp || !socket.writable || belongsToOther) return void socket.destroy()
  const { status, ...rest } = broken[error.code ?? ''] ?? malformed
  const body = JSON.stringify({ ok: false, ...rest })
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    'content-type: application/json; charset=utf-8',
    `content-length: ${Buffer.byteLength(body)}`,
    'connection: close',
  ]
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`, () => socket.destroy())
}

/** Node answers this by itself, without a body. */
export function refuseExpectation(_request: IncomingMessage, response: ServerResponse): void {
  const message = 'The only expectation is 100-continue.'
  const body = JSON.stringify({ ok: false, error: 'INVALID_REQUEST', message })
  const headers = { 'content-type': 'application/json; charset=utf-8', 'content-length': body.length }
  response.writeHead(417, { ...headers, connection: 'close' }).end(body)
}
