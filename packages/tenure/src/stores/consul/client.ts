import { isObject } from '@tenure/internal/objects'
import type { Clock } from '../../common/clock.ts'
import { objectOf } from '../../clients/http/body.ts'
import { tokenCredentialsOf, type TokenCredentials } from '../../clients/http/bearer-token.ts'
import { Endpoints, type Endpoint } from '../../clients/http/endpoints.ts'
import type { CallTimeouts, HttpAnswer } from '../../clients/http/http-client.ts'
import { errorOf, errorOfTransaction, malformedResponse } from './failures.ts'

/** One key of Consul. */
export interface ConsulKey {
  readonly key: string
  readonly value: string
  readonly modifyIndex: number
}

/** One operation of a transaction. The `index` is the key's index, and 0 means that the key must not exist. */
export type ConsulOperation =
  /** Fails the transaction if there is no such key. */
  | { readonly verb: 'get'; readonly key: string }
  /** Returns all keys that begin with `key`. */
  | { readonly verb: 'get-tree'; readonly key: string }
  | { readonly verb: 'check-index'; readonly key: string; readonly index: number }
  | { readonly verb: 'cas'; readonly key: string; readonly index: number; readonly value: string }
  | { readonly verb: 'set'; readonly key: string; readonly value: string }
  | { readonly verb: 'delete'; readonly key: string }

/** All keys below a folder, and the index from which a watch continues. */
export interface ConsulFolder {
  readonly keys: readonly ConsulKey[]
  readonly index: number
}

/** How an agent answers a read once something has changed after `index`, and at the latest after `waitMs`. */
export interface ConsulWait {
  readonly index: number
  readonly waitMs: number
}

/** A blocking read takes up to a sixteenth longer than requested. The rest is for the network and a busy agent. */
const blockingMs = (waitMs: number) => (waitMs * 17) / 16 + 5_000

/** A client of Consul's HTTP API: transactions on keys, and reads that can wait, on several agents of one cluster. */
export class ConsulClient {
  readonly #endpoints: Endpoints

  constructor(addresses: readonly URL[], credentials: TokenCredentials, clock: Clock) {
    const hasCredentials = Object.values(credentials).some((one) => one !== undefined)
    const peers = addresses.map((base) => ({
      name: `Consul at ${base.href.replace(/\/$/, '')}`,
      base,
      credentials: hasCredentials ? () => tokenCredentialsOf(credentials) : () => ({ tls: {} }),
    }))
    this.#endpoints = new Endpoints(peers, clock)
  }

  /**
   * Runs one transaction in one round trip. Returns undefined if it was refused because the keys differ. An agent that
   * does not answer may still have applied the transaction, which is then repeated through the next agent. The repeated
   * transaction finds its keys at other indexes.
   */
  async transact(
    operations: readonly ConsulOperation[],
    call: CallTimeouts,
  ): Promise<readonly ConsulKey[] | undefined> {
    const body = operations.map((operation) => ({ KV: encode(operation) }))
    return this.#endpoints.ask(call, async ({ name, http }, bounded) => {
      const answer = await http.request({ method: 'PUT', path: '/v1/txn?consistent', body, ...bounded })
      const { status, text } = answer
      if (status === 200) return resultsOf(name, text)
      const error = status === 409 ? errorOfTransaction(name, text) : errorOf(name, status, text)
      if (error) throw error
      return undefined
    })
  }

  /** Reads all keys below a folder, linearizably. */
  async folder(path: string, call: CallTimeouts): Promise<ConsulFolder> {
    return this.#endpoints.ask(call, (endpoint, bounded) => readFolder(endpoint, path, bounded))
  }

  /** Rejects if the token may not read a key, whether or not there is such a key. */
  async checkRight(key: string, call: CallTimeouts): Promise<void> {
    await this.#endpoints.ask(call, async ({ name, http }, bounded) => {
      listOf(name, await http.request({ method: 'GET', path: `/v1/kv/${inUrl(key)}?consistent`, ...bounded }))
    })
  }

  /** Returns the names of the folders below a folder. */
  async folders(path: string, call: CallTimeouts): Promise<readonly string[]> {
    return this.#endpoints.ask(call, async ({ name, http }, bounded) => {
      const answer = await http.request({
        method: 'GET',
        path: `/v1/kv/${inUrl(path)}?keys&separator=%2F&consistent`,
        ...bounded,
      })
      const keys = listOf(name, answer)
      const folders = keys.map((key) => (typeof key === 'string' && key.startsWith(path) ? key.slice(path.length) : ''))
      return folders.flatMap((folder) => (/^[^/]+\/$/.test(folder) ? [folder.slice(0, -1)] : []))
    })
  }

  /**
   * Yields the keys below a folder, and again after each change. `next` returns how long to wait for a change of what was
   * yielded last. The watch stays on one agent, and ends with an error if that agent does not answer.
   */
  async *watch(
    path: string,
    signal: AbortSignal,
    next: (seen: ConsulFolder) => Promise<ConsulWait>,
  ): AsyncGenerator<ConsulFolder, void, undefined> {
    yield* this.#endpoints.stream(signal, (endpoint) => follow(endpoint, path, signal, next))
  }

  /** The addresses of the servers that vote in the cluster, according to the agent that answers. */
  async peers(call: CallTimeouts): Promise<readonly string[]> {
    return this.#endpoints.ask(call, async ({ name, http }, bounded) => {
      const answer = await http.request({ method: 'GET', path: '/v1/status/peers', ...bounded })
      return listOf(name, answer).map(String)
    })
  }

  /** Closes idle connections. */
  close(): void {
    this.#endpoints.close()
  }
}

async function* follow(
  endpoint: Endpoint,
  path: string,
  signal: AbortSignal,
  next: (seen: ConsulFolder) => Promise<ConsulWait>,
): AsyncGenerator<ConsulFolder, void, undefined> {
  for (let wait: ConsulWait | undefined; ;) {
    const seen = await readFolder(endpoint, path, { signal }, wait)
    yield seen
    wait = await next(seen)
  }
}

async function readFolder(
  { name, http }: Endpoint,
  path: string,
  call: CallTimeouts,
  wait?: ConsulWait,
): Promise<ConsulFolder> {
  const blocking = wait ? `&index=${wait.index}&wait=${Math.ceil(wait.waitMs)}ms` : ''
  const answer = await http.request({
    method: 'GET',
    path: `/v1/kv/${inUrl(path)}?recurse&consistent${blocking}`,
    ...call,
    ...(wait && { timeoutMs: blockingMs(wait.waitMs) }),
  })
  const keys = listOf(name, answer).map((entry) => keyValueOf(name, entry))
  return { keys, index: Number(answer.headers['x-consul-index']) }
}

/** The list in an answer about keys. Without any key, Consul answers 404, which another server does as well. */
function listOf(name: string, { status, headers, text }: HttpAnswer): readonly unknown[] {
  if (headers['x-consul-results-filtered-by-acls'] === 'true') {
    throw errorOf(name, 403, 'the token may not read some of the keys')
  }
  const isEmpty = status === 404 && headers['x-consul-index'] !== undefined
  if (isEmpty) return []
  if (status !== 200) throw errorOf(name, status, text)
  const list = parsed(text)
  if (!Array.isArray(list)) throw malformedResponse(name, 'it is not a JSON list')
  return list
}

function resultsOf(name: string, text: string): readonly ConsulKey[] {
  const results = objectOf(text)?.['Results']
  // A transaction without results has null instead of a list.
  if (results === null) return []
  if (!Array.isArray(results)) throw malformedResponse(name, 'it has no results')
  return results.map((result: unknown) => keyValueOf(name, isObject(result) ? result['KV'] : undefined))
}

function keyValueOf(name: string, entry: unknown): ConsulKey {
  const { Key: key, Value: value, ModifyIndex: modifyIndex } = isObject(entry) ? entry : {}
  if (typeof key !== 'string' || !Number.isSafeInteger(modifyIndex) || !Number(modifyIndex)) {
    throw malformedResponse(name, 'an entry has no key or no index')
  }
  // An empty value is null.
  const text = typeof value === 'string' ? Buffer.from(value, 'base64').toString() : ''
  return { key, value: text, modifyIndex: Number(modifyIndex) }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function encode(operation: ConsulOperation): object {
  const { verb, key } = operation
  return {
    Verb: verb,
    Key: key,
    ...('index' in operation && { Index: operation.index }),
    ...('value' in operation && { Value: Buffer.from(operation.value).toString('base64') }),
  }
}

function inUrl(key: string): string {
  return key.split('/').map(encodeURIComponent).join('/')
}
