import { Agent as PlainAgent, request as plainRequest, type IncomingHttpHeaders, type IncomingMessage } from 'node:http'
import { Agent, request as tlsRequest } from 'node:https'
import { messageOf } from '@tenure/internal/message'
import type { Clock } from '../../common/clock.ts'
import { TenureError } from '../../common/errors.ts'
import { linesOf, textOf } from './body.ts'
import { Bound } from './bound.ts'
import type { Credentials } from './credentials.ts'

/** The server that an {@link HttpClient} calls. */
export interface Peer {
  /** Name in messages, such as `The API server at https://10.0.0.1`. */
  readonly name: string
  /** May contain a path, to which the paths of calls are appended. */
  readonly base: URL
  /** Called before each call, because tokens and certificates are replaced while a process runs. */
  credentials(): Credentials | Promise<Credentials>
}

/** One request. */
export interface HttpCall {
  /** The body of a PATCH is a JSON merge patch (RFC 7386). */
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** Path with query, relative to the peer's base URL. */
  readonly path: string
  readonly headers?: Readonly<Record<string, string>> | undefined
  readonly body?: unknown
  readonly signal: AbortSignal
  /** Covers everything from the DNS lookup to the last byte of the answer. Default: 10 s. */
  readonly timeoutMs?: number | undefined
}

/** The beginning of an answer. */
export interface Head {
  readonly status: number
  readonly headers: IncomingHttpHeaders
}

/** A whole answer. */
export interface HttpAnswer extends Head {
  readonly text: string
}

/** A request with an endless answer. */
export interface HttpStream extends Pick<HttpCall, 'path' | 'headers' | 'body' | 'signal'> {
  /** Default: GET. */
  readonly method?: HttpCall['method'] | undefined
  /** How long the stream may be silent before the connection counts as dead. Called again after each line. */
  silenceMs(): number
  /** Checks the head of the answer. An error that it throws ends the stream. `text` reads the body of a refusal. */
  admit(head: Head, text: () => Promise<string>): void | Promise<void>
}

const defaultTimeoutMs = 10_000
const idleSocketMs = 60_000

/** A small HTTP client with keep-alive connections, a deadline for each call, and streams that detect silence. */
export class HttpClient {
  readonly #peer: Peer
  readonly #clock: Clock
  readonly #agent: Agent | PlainAgent

  constructor(peer: Peer, clock: Clock) {
    this.#peer = peer
    this.#clock = clock
    const options = { keepAlive: true, timeout: idleSocketMs }
    this.#agent = peer.base.protocol === 'https:' ? new Agent(options) : new PlainAgent(options)
  }

  /** Sends one request. Rejects if the outcome is unknown. Resolves for every answer, whatever its status. */
  async request(call: HttpCall): Promise<HttpAnswer> {
    const { timeoutMs = defaultTimeoutMs } = call
    const bound = new Bound(call.signal)
    const timer = this.#clock.setTimer(timeoutMs, () =>
      bound.end(this.#late(`did not answer ${call.method}`, timeoutMs)),
    )
    try {
      const response = await this.#open(call, bound)
      const text = await textOf(response)
      // Ending a request discards the rest of its answer.
      if (bound.ended) throw bound.reason
      return { ...headOf(response), text }
    } catch (error) {
      // If one connection went silent, others may be half open too. The next call must use a new one.
      this.close()
      throw this.#failure(bound, error)
    } finally {
      timer.cancel()
      bound.forget()
    }
  }

  /** The lines of an endless answer. Ends when the peer ends it. */
  async *lines(stream: HttpStream): AsyncGenerator<string, void, undefined> {
    const bound = new Bound(stream.signal)
    const within = (ms: number) => this.#clock.setTimer(ms, () => bound.end(this.#late('sent nothing to a watch', ms)))
    let timer = within(defaultTimeoutMs)
    try {
      const response = await this.#open({ ...stream, method: stream.method ?? 'GET' }, bound)
      await stream.admit(headOf(response), () => textOf(response))
      timer.cancel()
      timer = within(stream.silenceMs())
      for await (const line of linesOf(response)) {
        timer.cancel()
        // Several lines arrive at once, and the caller may have stopped after an earlier one.
        if (bound.ended) throw bound.reason
        yield line
        timer = within(stream.silenceMs())
      }
    } catch (error) {
      // Keep idle connections if the caller stopped the stream or the peer refused it: the next call can reuse them.
      const refused = error instanceof TenureError && !bound.ended
      if (!stream.signal.aborted && !refused) this.close()
      throw this.#failure(bound, error)
    } finally {
      timer.cancel()
      // The connection ends with its stream: nothing else can use it while an answer is in progress.
      bound.end(new TenureError('STOPPED', 'The watch was closed by its reader.'))
      bound.forget()
    }
  }

  /** Closes idle connections. Calls in flight continue, and later calls open new connections. */
  close(): void {
    for (const socket of Object.values(this.#agent.freeSockets).flat()) socket?.destroy()
  }

  async #open(call: Pick<HttpCall, 'method' | 'path' | 'headers' | 'body'>, bound: Bound): Promise<IncomingMessage> {
    const payload = call.body === undefined ? undefined : JSON.stringify(call.body)
    const given = this.#peer.credentials()
    const credentials = given instanceof Promise ? await bound.race(given) : given
    const send = () => bound.race(this.#send(call, payload, credentials, bound))
    return send().catch((error: unknown) => {
      // The peer had closed a keep-alive connection. How much of the request it read is unknown, as after any lost
      // answer. The caller handles that, so retrying here only saves time. Whatever closed this connection has probably
      // closed the other idle ones too.
      if (!(error instanceof StaleConnection) || bound.ended) throw error
      this.close()
      return send()
    })
  }

  #send(
    call: Pick<HttpCall, 'method' | 'path' | 'headers'>,
    payload: string | undefined,
    { authorization, tls, agent }: Credentials,
    bound: Bound,
  ): Promise<IncomingMessage> {
    return new Promise((resolve, reject) => {
      const { protocol, hostname, port, pathname } = this.#peer.base
      const secure = protocol === 'https:'
      const options = {
        agent: agent ?? this.#agent,
        host: hostname.replace(/^\[|\]$/g, ''),
        port: port || (secure ? 443 : 80),
        method: call.method,
        path: pathname.replace(/\/$/, '') + call.path,
        headers: {
          accept: 'application/json',
          'user-agent': 'tenure',
          ...call.headers,
          ...(authorization !== undefined && { authorization }),
          ...(payload !== undefined && {
            'content-type': call.method === 'PATCH' ? 'application/merge-patch+json' : 'application/json',
            'content-length': Buffer.byteLength(payload),
          }),
        },
      }
      const request = secure ? tlsRequest({ ...tls, ...options }) : plainRequest(options)
      // Does not use the request's own `signal` option: Node forwards it to the socket, which outlives the request.
      bound.onEnd((reason) => request.destroy(reason))
      let isAnswered = false
      request.on('response', (response) => {
        isAnswered = true
        resolve(response)
      })
      request.on('error', (error: NodeJS.ErrnoException) => {
        const stale = request.reusedSocket && (error.code === 'ECONNRESET' || error.code === 'EPIPE')
        reject(stale ? new StaleConnection('A keep-alive connection was closed.', { cause: error }) : error)
      })
      // An answer that switches protocols triggers neither event.
      request.on('close', () => {
        if (!isAnswered) reject(new Error('the connection was closed without an answer'))
      })
      request.end(payload)
    })
  }

  #late(what: string, ms: number): TenureError {
    return new TenureError('TIMEOUT', `${this.#peer.name} ${what} within ${Math.round(ms)} ms.`, { retryable: true })
  }

  #failure(bound: Bound, error: unknown): unknown {
    if (bound.reason !== undefined) return bound.reason
    if (error instanceof TenureError) return error
    const text = `${this.#peer.name} cannot be reached: ${messageOf(error)}`
    return new TenureError('BACKEND_UNAVAILABLE', text, { retryable: true, cause: error })
  }
}

/** The peer closed a pooled connection before or while the request reached it. */
class StaleConnection extends Error {}

function headOf({ statusCode = 0, headers }: IncomingMessage): Head {
  return { status: statusCode, headers }
}
