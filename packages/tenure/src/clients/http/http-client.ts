import type { Agent as PlainAgent, ClientRequest, IncomingHttpHeaders, IncomingMessage } from 'node:http'
import type { Agent, RequestOptions } from 'node:https'
import { isDeepStrictEqual } from 'node:util'
import { messageOf } from '@tenure/internal/message'
import type { Clock } from '../../common/clock.ts'
import { TenureError } from '../../common/errors.ts'
import { linesOf, textOf } from './body.ts'
import { Bound } from '@tenure/internal/bound'
import type { Credentials } from './credentials.ts'

/** The server that an {@link HttpClient} calls. */
export interface Peer {
  /** Name in messages, such as `The API server at https://10.0.0.1`. */
  readonly name: string
  /** The URL of the server. It may contain a path, to which the paths of calls are appended. */
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

/** What ends a call that was not answered: its caller's signal, or its timeout. */
export type CallTimeouts = Pick<HttpCall, 'signal' | 'timeoutMs'>

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
  /**
   * Checks the head of the answer. An error that it throws ends the stream. `text` reads the body of an error response.
   */
  admit(head: Head, text: () => Promise<string>): void | Promise<void>
}

const defaultTimeoutMs = 10_000
const idleSocketMs = 60_000

/** A small HTTP client with keep-alive connections, a deadline for each call, and streams that detect silence. */
export class HttpClient {
  readonly #peer: Peer
  readonly #clock: Clock
  readonly #agent: Agent | PlainAgent
  readonly #newRequest: (options: RequestOptions) => ClientRequest
  readonly #base: { readonly host: string; readonly port: string | number; readonly path: string }
  /** The TLS options of the last call, and the name of the connections that they open. */
  #lastTls: { readonly tls: Credentials['tls']; readonly name: string } = { tls: {}, name: '0' }

  constructor(peer: Peer, clock: Clock) {
    this.#peer = peer
    this.#clock = clock
    const options = { keepAlive: true, timeout: idleSocketMs }
    // Loaded here, because every program that imports the library would otherwise load TLS.
    const { protocol, hostname, port, pathname } = peer.base
    const isSecure = protocol === 'https:'
    const { Agent, request } = process.getBuiltinModule(isSecure ? 'node:https' : 'node:http')
    this.#agent = new Agent(options)
    // Calls with equal TLS options share connections. By default the name of a connection contains all certificates,
    // and Node builds it several times for each call.
    this.#agent.getName = (call) => (call as NamedOptions).connectionName ?? ''
    this.#newRequest = request
    this.#base = {
      host: hostname.replace(/^\[|\]$/g, ''),
      port: port || (isSecure ? 443 : 80),
      path: pathname.replace(/\/$/, ''),
    }
  }

  /** Sends one request. Rejects if the outcome is unknown. Resolves for every answer, whatever its status. */
  async request(call: HttpCall): Promise<HttpAnswer> {
    const { timeoutMs = defaultTimeoutMs } = call
    const late = (ms: number) => this.#late(`did not answer ${call.method}`, ms)
    const bound = new Bound(call.signal, { clock: this.#clock, timeoutMs, late })
    try {
      const response = await this.#open(call, bound)
      const text = await textOf(response)
      // Ending a request discards the rest of its answer.
      if (bound.ended) throw bound.reason
      return { ...headOf(response), text }
    } catch (error) {
      // If one connection went silent, others may also be half open. The next call must use a new one.
      this.close()
      throw this.#failure(bound, error)
    } finally {
      bound.forget()
    }
  }

  /** The lines of an endless answer. Ends when the peer ends it. */
  async *lines(stream: HttpStream): AsyncGenerator<string, void, undefined> {
    const late = (ms: number) => this.#late('sent nothing to a watch', ms)
    const silence = (timeoutMs: number) => ({ clock: this.#clock, timeoutMs, late })
    const bound = new Bound(stream.signal, silence(defaultTimeoutMs))
    try {
      const response = await this.#open({ ...stream, method: stream.method ?? 'GET' }, bound)
      await stream.admit(headOf(response), () => textOf(response))
      bound.giveUpAfter(silence(stream.silenceMs()))
      for await (const line of linesOf(response)) {
        bound.waitOn()
        // Several lines arrive at once, and the caller may have stopped after an earlier one.
        if (bound.ended) throw bound.reason
        yield line
        bound.giveUpAfter(silence(stream.silenceMs()))
      }
    } catch (error) {
      // Keep idle connections if the caller stopped the stream or the peer refused it: the next call can reuse them.
      const refused = error instanceof TenureError && !bound.ended
      if (!stream.signal.aborted && !refused) this.close()
      throw this.#failure(bound, error)
    } finally {
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
      // answer. The caller handles that, so retrying here only saves time. The other idle connections have probably
      // been closed for the same reason.
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
      const { host, port, path } = this.#base
      const options: NamedOptions = {
        ...tls,
        agent: agent ?? this.#agent,
        connectionName: this.#connectionName(tls),
        host,
        port,
        method: call.method,
        path: path + call.path,
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
      const request = this.#newRequest(options)
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

  /** Connections with other certificates have another name, so that no call uses them. */
  #connectionName(tls: Credentials['tls']): string {
    const { name, tls: last } = this.#lastTls
    // Some clients return a new Buffer with the same content for each call.
    const isEqual = tlsOptions.every((option) => isDeepStrictEqual(tls[option], last[option]))
    if (!isEqual) this.#lastTls = { tls, name: String(Number(name) + 1) }
    return this.#lastTls.name
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

/** Options of a request, with the name of the connections that it may use. */
interface NamedOptions extends RequestOptions {
  readonly connectionName?: string
}

const tlsOptions = ['ca', 'cert', 'key', 'passphrase', 'pfx', 'rejectUnauthorized', 'servername'] as const

/** The peer closed a pooled connection before or while the request reached it. */
class StaleConnection extends Error {}

function headOf({ statusCode = 0, headers }: IncomingMessage): Head {
  return { status: statusCode, headers }
}
