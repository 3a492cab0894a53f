/** Checks that apply to the head of every request. */
import type { IncomingMessage } from 'node:http'
import { ServiceError } from '../common/errors.ts'

const maxHeaders = 100
/**
 * Headers that may occur only once, because every program between the client and here must read them in the same way.
 */
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
export class HeadCheck {
  readonly #allowedHosts: ReadonlySet<string> | undefined

  /** If undefined, all hosts are allowed. */
  constructor(allowedHosts: readonly string[] | undefined) {
    this.#allowedHosts = allowedHosts && new Set(allowedHosts.map((host) => host.toLowerCase()))
  }

  /** `isRefused` means that the path exists but does not support this method. In that case the body is not read. */
  check(request: IncomingMessage, isRefused: boolean): void {
    const { headers, rawHeaders, url = '', method = '' } = request
    if (rawHeaders.length > 2 * maxHeaders) {
      throw new ServiceError('TOO_LARGE', `A request may have at most ${maxHeaders} headers.`, { status: 431 })
    }
    checkDuplicates(rawHeaders)
    // A proxy that reads this header differently would see different requests than this service does (request
    // smuggling).
    const encoding = headers['transfer-encoding']
    if (encoding !== undefined && (encoding.toLowerCase() !== 'chunked' || request.httpVersion !== '1.1')) {
      throw invalid('The only supported transfer encoding is chunked, in HTTP/1.1.')
    }
    if (!url.startsWith('/')) throw invalid('The request target must be a path.')
    this.#checkHost(headers.host)
    if (isRefused) return
    if (withBody.has(method)) checkType(headers)
    else if (encoding !== undefined || (headers['content-length'] ?? '0') !== '0') {
      throw invalid(`A ${method} request must not have a body.`)
    }
    if (headers.origin !== undefined && method !== 'GET' && method !== 'HEAD') this.#checkOrigin(headers)
  }

  /** A web page whose host name was pointed at this address (DNS rebinding) still sends its own host name. */
  #checkHost(host: string | undefined): void {
    if (host === undefined || host === '') throw invalid('The Host header is missing.')
    if (!this.#allowedHosts || this.#allowedHosts.has(withoutPort(host).toLowerCase())) return
    throw new ServiceError(
      'UNAUTHORIZED',
      'This host name is not allowed. The operator can add it to the allowed hosts.',
    )
  }

  /** A browser sends the origin of the page that makes the request. Pages from other hosts may not change anything. */
  #checkOrigin({ origin = '', host = '' }: IncomingMessage['headers']): void {
    const asked = URL.canParse(origin) ? new URL(origin).host : ''
    const own = asked === host.toLowerCase() || this.#allowedHosts?.has(asked) === true
    if (asked === '' || !own) throw new ServiceError('UNAUTHORIZED', 'Pages from other origins may not do this.')
  }
}

function checkDuplicates(rawHeaders: readonly string[]): void {
  let seen = 0
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index] ?? ''
    if (!singleLengths.has(name.length)) continue
    const bit = single.get(name) ?? single.get(name.toLowerCase()) ?? 0
    if ((seen & bit) !== 0) throw invalid(`The ${name.toLowerCase()} header may occur only once.`)
    seen |= bit
  }
}

/** Browsers send other content types to other hosts without a preflight request. */
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
