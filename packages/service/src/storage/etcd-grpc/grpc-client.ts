import type { ClientHttp2Session, ClientHttp2Stream, IncomingHttpHeaders } from 'node:http2'
import { Bound } from '@tenure/internal/bound'
import { messageOf } from '@tenure/internal/message'
import { TenureError, type Clock } from 'tenure'
import { AnswerTooLong, longestBytes, type Credentials, type HttpCall, type Peer } from 'tenure/internal/etcd'

/** One call of a gRPC method with one request and one response. */
export interface GrpcCall extends Pick<HttpCall, 'headers' | 'signal'> {
  /** Service and method, such as `/etcdserverpb.KV/Txn`. */
  readonly path: string
  readonly message: Buffer
  readonly timeoutMs: number
}

/** A whole answer. A `code` other than 0 is an error, and there is no message then. */
export interface GrpcAnswer {
  readonly code: number
  /** What the peer says about the error. */
  readonly text: string
  readonly message: Buffer
}

interface OpenSession {
  readonly session: ClientHttp2Session
  /** The TLS credentials with which it was opened. */
  readonly tls: string
  hasAnswered: boolean
}

/** Each message is preceded by a byte that says whether it is compressed, and by its length. */
const prefixBytes = 5
/** How many bytes the peer may send before it has to wait for this side. */
const windowBytes = 2 ** 20

/** A small gRPC client: one HTTP/2 connection that all calls share, and a deadline for each call. */
export class GrpcClient {
  readonly #peer: Peer
  readonly #clock: Clock
  #session: OpenSession | undefined

  constructor(peer: Peer, clock: Clock) {
    this.#peer = peer
    this.#clock = clock
  }

  /** Rejects if the outcome is unknown. Resolves for every answer, whatever its code. */
  async call(call: GrpcCall): Promise<GrpcAnswer> {
    const { signal, timeoutMs } = call
    const late = (ms: number) => this.#late(ms)
    const bound = new Bound(signal, { clock: this.#clock, timeoutMs, late })
    try {
      const given = this.#peer.credentials()
      const credentials = given instanceof Promise ? await bound.race(given) : given
      return await this.#send(call, credentials, bound)
    } catch (error) {
      throw this.#failure(bound, error)
    } finally {
      bound.forget()
    }
  }

  /** Closes the connection. Calls in flight continue, and later calls open a new connection. */
  close(): void {
    if (this.#session) this.#retire(this.#session)
  }

  async #send(call: GrpcCall, credentials: Credentials, bound: Bound, isRetry = false): Promise<GrpcAnswer> {
    if (bound.ended) throw bound.reason
    const used = this.#sessionFor(credentials)
    const { session, hasAnswered } = used
    try {
      const answer = await answerTo(session, call, credentials, bound)
      used.hasAnswered = true
      return answer
    } catch (error) {
      // The peer had closed the connection, perhaps before it read the call. Whether it did is unknown, as after any
      // lost answer. The caller handles that, so retrying here only saves time.
      const isStale = hasAnswered && (session.closed || session.destroyed)
      this.#retire(used)
      if (!isStale || isRetry || bound.ended) throw error
      return this.#send(call, credentials, bound, true)
    }
  }

  /** A connection that went silent may stay so. Later calls use a new one, and those that already do keep theirs. */
  #retire(used: OpenSession): void {
    if (this.#session === used) this.#session = undefined
    if (!used.session.destroyed) used.session.close()
  }

  #sessionFor({ tls }: Credentials): OpenSession {
    const key = JSON.stringify([tls.ca, tls.cert, tls.key])
    const current = this.#session
    if (current && current.tls === key && !current.session.closed && !current.session.destroyed) return current
    this.close()
    const { base } = this.#peer
    // Loaded here, because a service on another storage does not need HTTP/2.
    const { connect } = process.getBuiltinModule('node:http2')
    const session = connect(base.origin, {
      ...(base.protocol === 'https:' && definedIn(tls)),
      settings: { enablePush: false, initialWindowSize: windowBytes },
    })
    // A call that waits for an answer has a timer, which keeps the process alive.
    session.unref()
    // Node emits this event even if the session was closed while it was connecting.
    session.once('connect', () => {
      if (!session.destroyed) session.setLocalWindowSize(windowBytes)
    })
    const opened: OpenSession = { session, tls: key, hasAnswered: false }
    const forget = () => {
      if (this.#session === opened) this.#session = undefined
    }
    // Each stream of the session also gets the error.
    session.on('error', forget)
    session.once('goaway', forget)
    session.once('close', forget)
    this.#session = opened
    return opened
  }

  #late(ms: number): TenureError {
    const text = `${this.#peer.name} did not answer within ${Math.round(ms)} ms.`
    return new TenureError('TIMEOUT', text, { retryable: true })
  }

  #failure(bound: Bound, error: unknown): unknown {
    if (bound.reason !== undefined) return bound.reason
    if (error instanceof TenureError) return error
    const text = `${this.#peer.name} cannot be reached: ${messageOf(error)}`
    return new TenureError('BACKEND_UNAVAILABLE', text, { retryable: true, cause: error })
  }
}

function answerTo(
  session: ClientHttp2Session,
  { path, message, headers }: GrpcCall,
  { authorization }: Credentials,
  bound: Bound,
): Promise<GrpcAnswer> {
  return new Promise((resolve, reject) => {
    const stream = session.request({
      ':method': 'POST',
      ':path': path,
      'content-type': 'application/grpc',
      te: 'trailers',
      'user-agent': 'tenure',
      ...headers,
      ...(authorization !== undefined && { authorization }),
    })
    bound.onEnd((reason) => {
      stream.destroy(reason)
      reject(reason)
    })
    read(stream).then(resolve, reject)
    const prefix = Buffer.alloc(prefixBytes)
    prefix.writeUInt32BE(message.length, 1)
    stream.write(prefix)
    stream.end(message)
  })
}

function read(stream: ClientHttp2Stream): Promise<GrpcAnswer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let bytes = 0
    let end: IncomingHttpHeaders = {}
    stream.on('response', (headers) => {
      const status = headers[':status']
      // A refusal without a message has its code here, and no trailers.
      if (headers['grpc-status'] !== undefined) end = headers
      else if (status !== 200) stream.destroy(new Error(`it answered ${status}, but not with a gRPC response`))
    })
    stream.on('data', (chunk: Buffer) => {
      bytes += chunk.length
      if (bytes > longestBytes) stream.destroy(new AnswerTooLong(`the answer is longer than ${longestBytes} bytes`))
      else chunks.push(chunk)
    })
    stream.on('trailers', (headers) => (end = headers))
    stream.on('error', reject)
    stream.on('close', () => {
      const code = end['grpc-status']
      if (code === undefined) return reject(new Error('the answer was cut off'))
      const text = decoded(String(end['grpc-message'] ?? ''))
      const message = messageIn(Buffer.concat(chunks))
      if (Number(code) === 0 && !message) return reject(new Error('the answer has no message'))
      resolve({ code: Number(code), text, message: message ?? Buffer.alloc(0) })
    })
  })
}

/** Returns undefined unless this is exactly one uncompressed message. */
function messageIn(bytes: Buffer): Buffer | undefined {
  const isWhole = bytes.length >= prefixBytes && bytes.readUInt32BE(1) === bytes.length - prefixBytes
  return isWhole && bytes[0] === 0 ? bytes.subarray(prefixBytes) : undefined
}

/** Messages are percent-encoded. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

function definedIn(tls: Credentials['tls']): Credentials['tls'] {
  return Object.fromEntries(Object.entries(tls).filter(([, value]) => value !== undefined))
}
