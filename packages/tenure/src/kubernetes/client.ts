import type { IncomingMessage } from 'node:http'
import { Agent, request as httpsRequest } from 'node:https'
import type { Clock } from '../clock.ts'
import { systemClock } from '../clock.ts'
import { invalidOption, TenureError } from '../errors.ts'
import { ApiError, isObject, type ApiAnswer } from './api-error.ts'
import type { Connection, Credentials } from './connection.ts'

/** One call to the API server. */
export interface ApiCall {
  readonly method: 'GET' | 'POST' | 'PUT'
  /** With the query, below the server's address. */
  readonly path: string
  readonly body?: unknown
  readonly signal: AbortSignal
  /** Covers everything from the look-up of the name to the last byte of the answer. Default: 10 s. */
  readonly timeoutMs?: number | undefined
}

/** A watch: an answer without end, one JSON object per line. */
export interface ApiWatch {
  readonly path: string
  readonly signal: AbortSignal
  /** After how long without a line the connection counts as dead. Asked anew after each line. */
  silenceMs(): number
}

const defaultTimeoutMs = 10_000
const idleSocketMs = 60_000
const longestAnswerBytes = 4 * 2 ** 20

/**
 * A small client of the Kubernetes API: kept-alive connections, a deadline on each call, and watches that notice
 * silence. `inCluster()` and `fromKubeConfig()` make one.
 *
 * @example
 * const client = inCluster()
 * const store = kubernetesStore({ client, namespace: 'jobs' })
 */
export class KubernetesClient {
  /** The API server's address. */
  readonly server: string
  readonly #connection: Connection
  readonly #base: URL
  readonly #clock: Clock
  readonly #agent = new Agent({ keepAlive: true, timeout: idleSocketMs })

  constructor(connection: Connection, clock: Clock = systemClock) {
    this.server = connection.server
    this.#connection = connection
    this.#base = addressOf(connection.server)
    this.#clock = clock
  }

  /** Sends one request. Rejects if its outcome is not known; every answer of the server resolves. */
  async request(call: ApiCall): Promise<ApiAnswer> {
    const { timeoutMs = defaultTimeoutMs } = call
    const bound = new Bound(call.signal)
    const timer = this.#clock.setTimer(timeoutMs, () =>
      bound.end(this.#late(`has not answered ${call.method}`, timeoutMs)),
    )
    try {
      const response = await this.#open(call, bound)
      return { status: response.statusCode ?? 0, body: parse(await textOf(response)) }
    } catch (error) {
      // A connection that fell silent may not be the only one: what comes next is to use a fresh one (half-open peers).
      this.close()
      throw this.#failure(bound, error)
    } finally {
      timer.cancel()
      bound.forget()
    }
  }

  /** Opens a watch. Rejects with an `ApiError` if the server refuses it; ends when the server ends it. */
  async *watch(watch: ApiWatch): AsyncGenerator<unknown, void, undefined> {
    const bound = new Bound(watch.signal)
    const within = (ms: number) =>
      this.#clock.setTimer(ms, () => bound.end(this.#late('has sent nothing to a watch', ms)))
    let timer = within(defaultTimeoutMs)
    try {
      const response = await this.#open({ method: 'GET', path: watch.path }, bound)
      if (response.statusCode !== 200) {
        const body = parse(await textOf(response))
        const advice = 'Standbys poll instead; add "watch" to the Role for speed.'
        throw new ApiError('A watch was not opened', { status: response.statusCode ?? 0, body }, advice)
      }
      timer.cancel()
      timer = within(watch.silenceMs())
      for await (const line of linesOf(response)) {
        timer.cancel()
        // Lines come in bunches, of which the caller may not want the rest.
        if (bound.ended) throw bound.reason
        yield parse(line)
        timer = within(watch.silenceMs())
      }
    } catch (error) {
      // Not when the caller has had enough: what it calls next is to find its connection.
      if (!watch.signal.aborted && !(error instanceof ApiError)) this.close()
      throw this.#failure(bound, error)
    } finally {
      timer.cancel()
      // The connection ends with its watch: nothing else can use it while an answer is under way.
      bound.end(new TenureError('STOPPED', 'The watch was left.'))
      bound.forget()
    }
  }

  /** Ends the connections that nobody uses now. Calls under way go on, and later ones open new connections. */
  close(): void {
    for (const socket of Object.values(this.#agent.freeSockets).flat()) socket?.destroy()
  }

  async #open(call: Pick<ApiCall, 'method' | 'path' | 'body'>, bound: Bound): Promise<IncomingMessage> {
    const payload = call.body === undefined ? undefined : JSON.stringify(call.body)
    const credentials = await bound.race(Promise.resolve(this.#connection.credentials()))
    const send = () => bound.race(this.#send(call, payload, credentials, bound))
    return send().catch((error: unknown) => {
      // The server had closed a kept connection. What it read of the request is unknown, as after any lost answer;
      // whoever asks copes with that, so a second try saves it the wait. What closed one has closed the others too.
      if (!(error instanceof StaleConnection) || bound.ended) throw error
      this.close()
      return send()
    })
  }

  #send(
    call: Pick<ApiCall, 'method' | 'path'>,
    payload: string | undefined,
    { authorization, tls, agent }: Credentials,
    bound: Bound,
  ): Promise<IncomingMessage> {
    return new Promise((resolve, reject) => {
      const { hostname, port, pathname } = this.#base
      const request = httpsRequest({
        ...tls,
        agent: agent ?? this.#agent,
        host: hostname.replace(/^\[|\]$/g, ''),
        port: port || 443,
        method: call.method,
        path: pathname.replace(/\/$/, '') + call.path,
        headers: {
          accept: 'application/json',
          'user-agent': 'tenure',
          ...(authorization !== undefined && { authorization }),
          ...(payload !== undefined && {
            'content-type': 'application/json',
            'content-length': Buffer.byteLength(payload),
          }),
        },
      })
      // Not the request's own `signal` option: Node hands it on to the socket, which outlives the request.
      bound.onEnd((reason) => request.destroy(reason))
      request.on('response', resolve)
      request.on('error', (error: NodeJS.ErrnoException) => {
        const stale = request.reusedSocket && (error.code === 'ECONNRESET' || error.code === 'EPIPE')
        reject(stale ? new StaleConnection('A kept connection was closed.', { cause: error }) : error)
      })
      // An answer that changes the protocol ends in neither of the two.
      request.on('close', () => reject(new Error('the connection was closed without an answer')))
      request.end(payload)
    })
  }

  #late(what: string, ms: number): TenureError {
    return new TenureError('TIMEOUT', `The API server at ${this.server} ${what} within ${Math.round(ms)} ms.`, {
      retryable: true,
    })
  }

  #failure(bound: Bound, error: unknown): unknown {
    if (bound.reason !== undefined) return bound.reason
    if (error instanceof TenureError) return error
    return new TenureError(
      'BACKEND_UNAVAILABLE',
      `The API server at ${this.server} cannot be reached: ${messageOf(error)}`,
      { retryable: true, cause: error },
    )
  }
}

/** A connection of the pool that the server had closed before the request reached it, or while it did. */
class StaleConnection extends Error {}

/** The end of a call, by its caller or by its deadline, wherever the call stands. */
class Bound {
  reason: unknown
  readonly #signal: AbortSignal
  readonly #listeners = new Set<(reason: Error) => void>()
  readonly #onAbort = () => this.end(this.#signal.reason)

  constructor(signal: AbortSignal) {
    this.#signal = signal
    if (signal.aborted) this.reason = signal.reason
    else signal.addEventListener('abort', this.#onAbort, { once: true })
  }

  get ended(): boolean {
    return this.reason !== undefined
  }

  end(reason: unknown): void {
    this.reason ??= reason
    for (const listener of this.#listeners) listener(asError(this.reason))
    this.#listeners.clear()
  }

  onEnd(listener: (reason: Error) => void): void {
    if (this.ended) listener(asError(this.reason))
    else this.#listeners.add(listener)
  }

  /** What a promise gives, unless the call ends before: nothing that hangs can hold it up. */
  race<T>(promise: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.onEnd(reject)
      promise.then(resolve, reject)
    })
  }

  forget(): void {
    this.#signal.removeEventListener('abort', this.#onAbort)
    this.#listeners.clear()
  }
}

/** A name with several addresses, none of which answers, gives an error for each and a message for none. */
function messageOf(error: unknown): string {
  if (error instanceof AggregateError && error.message === '') return error.errors.map(messageOf).join(', ')
  return error instanceof Error ? error.message : String(error)
}

function asError(reason: unknown): Error {
  return reason instanceof Error ? reason : new Error(String(reason))
}

function addressOf(server: unknown): URL {
  const rule = 'it must be the https: address of a Kubernetes API server'
  if (typeof server !== 'string' || !URL.canParse(server)) throw invalidOption('server', server, rule)
  const address = new URL(server)
  // A token must not cross a network in the clear.
  if (address.protocol !== 'https:') throw invalidOption('server', server, rule)
  // The address is shown in messages, this one as well.
  if (address.username || address.password) {
    throw invalidOption('server', address.host, 'no password may stand in the address of an API server')
  }
  return address
}

async function textOf(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of response as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > longestAnswerBytes) throw new Error(`the answer has more than ${longestAnswerBytes} bytes`)
    chunks.push(chunk)
  }
  if (!response.complete) throw new Error('the answer was cut off')
  return Buffer.concat(chunks).toString()
}

async function* linesOf(response: IncomingMessage): AsyncGenerator<string, void, undefined> {
  response.setEncoding('utf8')
  let rest = ''
  for await (const chunk of response as AsyncIterable<string>) {
    const [first = '', ...more] = chunk.split('\n')
    rest += first
    if (rest.length > longestAnswerBytes) throw new Error('a line of the watch is too long')
    for (const next of more) {
      yield rest
      rest = next
    }
  }
}

function parse(text: string): unknown {
  try {
    const value: unknown = JSON.parse(text)
    return isObject(value) ? value : undefined
  } catch {
    return undefined
  }
}
