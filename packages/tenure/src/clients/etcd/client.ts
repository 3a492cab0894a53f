import { isObject } from '@tenure/internal/objects'
import type { Clock } from '../../common/clock.ts'
import { TenureError } from '../../common/errors.ts'
import { objectOf } from '../http/body.ts'
import { within } from '@tenure/internal/bound'
import { Endpoints, type Endpoint } from '../http/endpoints.ts'
import type { CallTimeouts, HttpStream } from '../http/http-client.ts'
import { provide, provideTls, type Provided, type ProvidedTls } from '../http/provided.ts'
import {
  compacted,
  etcdErrorOf,
  EtcdError,
  errorOf,
  malformedResponse,
  streamErrorOf,
  understood,
} from './etcd-error.ts'
import { base64, clusterOf, decodeEvents, type KeyEvent, type Transaction, type TransactionAnswer } from './messages.ts'
import { GatewayTransactions, type TransactionTransport } from './transactions.ts'

/** The credentials for etcd. */
export interface EtcdCredentials extends ProvidedTls {
  readonly user?: string | undefined
  readonly password?: Provided | undefined
}

/** A watch of all keys from `key` up to `rangeEnd`, starting at a revision. */
export interface EtcdWatch extends Pick<HttpStream, 'signal' | 'silenceMs'> {
  readonly key: string
  readonly rangeEnd: string
  readonly fromRevision: string
}

/**
 * What to do if the cluster's revision is lower than one already seen. `refuse`: reject its answers from then on.
 * `use`: continue with the earlier history, for a caller that can handle the lost writes.
 */
export type HistoryReplacementPolicy = 'refuse' | 'use'

/** A token. Its text is empty if etcd has authentication disabled. */
type EtcdToken = { readonly text: string }

/** A call with a time limit. */
type BoundedCall = CallTimeouts & { readonly timeoutMs: number }

/** The options of {@link EtcdClient}. */
export interface EtcdClientOptions {
  /** Default: `refuse`. */
  readonly replaced?: HistoryReplacementPolicy | undefined
  /** How transactions are sent. Default: through etcd's JSON gateway, like all other calls. */
  readonly transactions?: TransactionTransport | undefined
}

/** A client of etcd's JSON gateway: transactions and watches, on several members of one cluster. */
export class EtcdClient {
  readonly #endpoints: Endpoints
  readonly #credentials: EtcdCredentials
  readonly #clock: Clock
  #token: EtcdToken | undefined
  /** Cancels authentication that no caller waits for anymore. */
  #closing = new AbortController()
  /**
   * The pending authentication of each member. It is kept per member, so that a member that hangs does not delay calls
   * to another one.
   */
  readonly #authenticating = new Map<string, Promise<EtcdToken>>()
  /** The cluster id of the first answer. After that, answers from any other cluster are rejected. */
  #clusterId: string | undefined
  /** The highest revision in an answer to a transaction, within the current history. */
  #revision = 0n
  readonly #replaced: HistoryReplacementPolicy
  readonly #transactions: TransactionTransport
  #replacements = 0

  constructor(
    addresses: readonly URL[],
    credentials: EtcdCredentials,
    clock: Clock,
    { replaced = 'refuse', transactions = new GatewayTransactions() }: EtcdClientOptions = {},
  ) {
    this.#replaced = replaced
    this.#transactions = transactions
    const { ca, cert, key } = credentials
    const needsTls = (ca ?? cert ?? key) !== undefined
    const peers = addresses.map((base) => ({
      name: `etcd at ${base.href.replace(/\/$/, '')}`,
      base,
      credentials: needsTls ? async () => ({ tls: await provideTls(credentials) }) : () => ({ tls: {} }),
    }))
    this.#endpoints = new Endpoints(peers, clock, ['WRONG_CLUSTER'])
    this.#credentials = credentials
    this.#clock = clock
  }

  /** Id of the cluster that answered. Undefined before the first answer. */
  get clusterId(): string | undefined {
    return this.#clusterId
  }

  /** How many times an earlier history replaced the cluster's history, for example after a restored backup. */
  get replacements(): number {
    return this.#replacements
  }

  /**
   * Runs one transaction in one round trip. A member that does not answer may still have applied the transaction, which
   * is then repeated on the next member. In that case, the repeated transaction finds its keys at other revisions and
   * returns the current state.
   */
  async transact(transaction: Transaction, call: CallTimeouts): Promise<TransactionAnswer> {
    const send = this.#transactions.encode(transaction)
    return this.#reach(call, async (endpoint, bounded) => {
      const { name } = endpoint
      const [before, replacements] = [this.#revision, this.#replacements]
      const { clusterId, ...answer } = await send(endpoint, bounded)
      return this.#ofCluster(endpoint, clusterId, () => {
        const revision = BigInt(answer.revision)
        // The answer may belong to either history.
        if (replacements !== this.#replacements) throw historyChanged(name)
        // Transactions are linearizable: one sent after that answer cannot have a lower revision.
        if (revision < before) throw this.#earlierHistory(name, revision, before)
        if (revision > this.#revision) this.#revision = revision
        return answer
      })
    })
  }

  #earlierHistory(name: string, found: bigint, known: bigint): TenureError {
    if (this.#replaced === 'refuse') return replacedHistory(name, found, known)
    this.#replacements += 1
    this.#revision = found
    return historyChanged(name, `: it is at revision ${found} but was at revision ${known}`)
  }

  /** Yields the changes of each response. The first response confirms that the watch was created. */
  async *watch({ key, rangeEnd, fromRevision, signal, silenceMs }: EtcdWatch): AsyncGenerator<readonly KeyEvent[]> {
    const body = {
      create_request: { key: base64(key), range_end: base64(rangeEnd), start_revision: fromRevision },
    }
    yield* this.#endpoints.stream(signal, (endpoint) => this.#follow(endpoint, body, { signal, silenceMs }))
  }

  /** Sends any other request, such as `/v3/maintenance/status`. Returns the answer unchanged. */
  async ask(path: string, body: object, call: CallTimeouts): Promise<Record<string, unknown>> {
    return this.#reach(call, async (endpoint, bounded) => {
      const answer = await endpoint.http.request({ method: 'POST', path, body, ...bounded })
      if (answer.status !== 200) throw errorOf(endpoint.name, answer.status, answer.text)
      return this.#understood(endpoint, objectOf(answer.text), (understood) => understood)
    })
  }

  /** Closes idle connections. */
  close(): void {
    this.#closing.abort(new TenureError('STOPPED', 'The store is closed.'))
    this.#closing = new AbortController()
    this.#transactions.close()
    this.#endpoints.close()
  }

  /** Calls `send` with one member after another, with a token if there is a user. */
  async #reach<T>(
    call: CallTimeouts,
    send: (endpoint: Endpoint, bounded: BoundedCall & { readonly headers: Record<string, string> }) => Promise<T>,
  ): Promise<T> {
    return this.#endpoints.ask(call, async (endpoint, share) => {
      const deadlineMs = this.#clock.monotonicMs() + share.timeoutMs
      const left = () => {
        const timeoutMs = deadlineMs - this.#clock.monotonicMs()
        if (timeoutMs > 0) return { ...share, timeoutMs }
        throw noToken(endpoint.name, share.timeoutMs)
      }
      return this.#withToken(endpoint, left, async (headers) => send(endpoint, { headers, ...left() }))
    })
  }

  /** The events of a watch. Restarts the watch once if its token is rejected. */
  async *#follow(
    endpoint: Endpoint,
    body: unknown,
    stream: Pick<HttpStream, 'signal' | 'silenceMs'>,
  ): AsyncGenerator<readonly KeyEvent[], void, undefined> {
    for (let isSecond = false; ; isSecond = true) {
      const token = await this.#tokenOf(endpoint, { signal: stream.signal, timeoutMs: firstAnswerMs })
      try {
        return yield* this.#events(endpoint, body, stream, token)
      } catch (error) {
        if (isSecond || !token || !isTokenError(error)) throw error
        this.#forget(token)
      }
    }
  }

  async *#events(
    endpoint: Endpoint,
    body: unknown,
    { signal, silenceMs }: Pick<HttpStream, 'signal' | 'silenceMs'>,
    token: EtcdToken | undefined,
  ): AsyncGenerator<readonly KeyEvent[], void, undefined> {
    const { name, http } = endpoint
    const lines = http.lines({
      method: 'POST',
      path: '/v3/watch',
      // Makes a member that has lost its leader end the watch, instead of staying silent.
      headers: { ...headersOf(token), 'grpc-metadata-hasleader': 'true' },
      body,
      signal,
      silenceMs,
      admit: async ({ status }, text) => {
        if (status !== 200) throw errorOf(name, status, await text())
      },
    })
    for await (const line of lines) {
      const parsed = objectOf(line)
      const failure = parsed && streamErrorOf(name, parsed)
      if (failure) throw failure
      const result = isObject(parsed?.['result']) ? parsed['result'] : undefined
      yield this.#understood(endpoint, result, (answer) => {
        if (answer['canceled'] === true) throw cancelled(name, answer)
        return decodeEvents(answer)
      })
    }
  }

  /** Processes an answer with `take`, after checking that it comes from this cluster. */
  #understood<T>(
    endpoint: Endpoint,
    body: Record<string, unknown> | undefined,
    take: (body: Record<string, unknown>) => T,
  ): T {
    return understood(endpoint.name, body, (answer) => this.#ofCluster(endpoint, clusterOf(answer), () => take(answer)))
  }

  /**
   * Remembers the cluster of an answer that `take` accepts. Throws if the answer is from a different cluster than
   * earlier answers.
   */
  #ofCluster<T>({ name }: Endpoint, clusterId: string, take: () => T): T {
    if (this.#clusterId !== undefined && clusterId !== this.#clusterId)
      throw wrongCluster(name, clusterId, this.#clusterId)
    const taken = take()
    this.#clusterId = clusterId
    return taken
  }

  /** Sends with a token, and retries once with a new token if etcd rejects it. */
  async #withToken<T>(
    endpoint: Endpoint,
    left: () => BoundedCall,
    send: (headers: Record<string, string>) => Promise<T>,
  ): Promise<T> {
    if (this.#credentials.user === undefined) return send({})
    const token = await this.#tokenOf(endpoint, left())
    try {
      return await send(headersOf(token))
    } catch (error) {
      if (!token || !isTokenError(error)) throw error
      this.#forget(token)
      return send(headersOf(await this.#tokenOf(endpoint, left())))
    }
  }

  /** Returns the token for an endpoint. Undefined if no user is configured. */
  async #tokenOf(endpoint: Endpoint, call: BoundedCall): Promise<EtcdToken | undefined> {
    if (this.#credentials.user === undefined) return undefined
    if (this.#token) return this.#token
    let authenticating = this.#authenticating.get(endpoint.name)
    if (!authenticating) {
      // etcd checks passwords slowly, and repeated requests make it slower. So all calls that need a token share one
      // request. Each call waits up to its own limit, and the request continues even if no call is waiting anymore.
      const bound = { signal: this.#closing.signal, timeoutMs: tokenMs }
      const asked = this.#authenticate(endpoint, bound)
      authenticating = this.#within(bound, endpoint.name, asked).finally(() =>
        this.#authenticating.delete(endpoint.name),
      )
      this.#authenticating.set(endpoint.name, authenticating)
    }
    return this.#within(call, endpoint.name, authenticating)
  }

  async #authenticate({ name, http }: Endpoint, bound: BoundedCall): Promise<EtcdToken> {
    const { user, password } = this.#credentials
    const body = { name: user, password: await provide('password', password) }
    const answer = await http.request({
      method: 'POST',
      path: '/v3/auth/authenticate',
      body,
      ...bound,
    })
    const token = answer.status === 200 ? objectOf(answer.text)?.['token'] : undefined
    // A token that does not fit into a header would fail every later call.
    if (typeof token === 'string' && /^[\x21-\x7e]+$/.test(token)) return (this.#token = { text: token })
    const error =
      answer.status === 200
        ? malformedResponse(name, 'it contains no usable token')
        : errorOf(name, answer.status, answer.text)
    if (error.reason === 'auth-disabled') return (this.#token = { text: '' })
    throw error
  }

  #forget(token: EtcdToken | undefined): void {
    if (this.#token === token) this.#token = undefined
  }

  async #within<T>({ signal, timeoutMs }: BoundedCall, peer: string, promise: Promise<T>): Promise<T> {
    return within(signal, { clock: this.#clock, timeoutMs, late: (ms) => noToken(peer, ms) }, promise)
  }
}

/** Time limit for the first answer to a watch, which confirms that it was created. */
const firstAnswerMs = 10_000
const tokenMs = 5_000

function noToken(peer: string, ms: number): TenureError {
  return new TenureError('TIMEOUT', `${peer} did not provide a token within ${Math.round(ms)} ms.`, { retryable: true })
}

/** True if a new token may help. That includes a rejection in an unknown format, possibly from a proxy. */
function isTokenError(error: unknown): boolean {
  return error instanceof EtcdError && (error.reason === 'token' || error.reason === 'strange')
}

function cancelled(peer: string, answer: Record<string, unknown>): EtcdError {
  const { compact_revision: compactRevision, cancel_reason: reason } = answer
  if (compactRevision !== undefined) return compacted(peer)
  return etcdErrorOf(peer, { code: 2, message: typeof reason === 'string' ? reason : 'the watch was canceled' })
}

function headersOf(token: EtcdToken | undefined): Record<string, string> {
  return token?.text ? { authorization: token.text } : {}
}

/** Fails closed. A lease in another cluster must not count here. */
function wrongCluster(peer: string, found: string, known: string): TenureError {
  const text = `${peer} is a member of cluster ${found}, but this client was using cluster ${known}, so it ignores that member. Configure members of one cluster only. If the data was replaced on purpose, restart this process.`
  return new TenureError('WRONG_CLUSTER', text)
}

/**
 * The error for a call during which the history was replaced. The outcome of that call is unknown, and the new history
 * answers the next call.
 */
function historyChanged(peer: string, how = ''): TenureError {
  const text = `The history of ${peer} was replaced by an earlier one${how}. If you restored a backup on purpose, stop all replicas of the service and run "tenure restore" on this store once. A replica that keeps running compensates for the writes that it knows to be lost: it skips terms, and grants nothing for the longest lease.`
  return new TenureError('BACKEND_UNAVAILABLE', text, { retryable: true })
}

function replacedHistory(peer: string, found: bigint, known: bigint): TenureError {
  const text = `${peer} is at revision ${found}, but this client has already seen revision ${known}: its history was replaced, so the client ignores it. Check whether several clusters have the same id. If the data was replaced on purpose, restart this process.`
  return new TenureError('WRONG_CLUSTER', text)
}
