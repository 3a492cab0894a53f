import { systemClock, type Clock } from '../../clock.ts'
import { invalidOption } from '../../errors.ts'
import { objectOf } from '../../http/body.ts'
import { HttpClient, type HttpCall, type HttpStream } from '../../http/http-client.ts'
import { ApiError, type ApiAnswer } from './api-error.ts'
import type { Connection, HomeNamespace } from './connection.ts'

/** One call to the API server. */
export type ApiCall = Omit<HttpCall, 'headers'>

/** A watch: an endless answer with one JSON object per line. */
export type ApiWatch = Pick<HttpStream, 'path' | 'signal' | 'silenceMs'>

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
  readonly #http: HttpClient
  readonly #connection: Connection

  constructor(connection: Connection, clock: Clock = systemClock) {
    this.server = connection.server
    this.#connection = connection
    const base = addressOf(connection.server)
    const name = `The API server at ${connection.server}`
    this.#http = new HttpClient({ name, base, credentials: () => connection.credentials() }, clock)
  }

  /** The namespace that this pod or this context is in, if it is known. @internal */
  home?(): HomeNamespace | undefined {
    return this.#connection.home?.()
  }

  /** Sends one request. Rejects if the outcome is unknown; every answer of the server resolves. */
  async request(call: ApiCall): Promise<ApiAnswer> {
    const { status, text } = await this.#http.request(call)
    return { status, body: objectOf(text) }
  }

  /** Opens a watch. Rejects with an `ApiError` if the server refuses it; ends when the server ends it. */
  async *watch(watch: ApiWatch): AsyncGenerator<unknown, void, undefined> {
    for await (const line of this.#http.lines({ ...watch, admit })) yield objectOf(line)
  }

  /** Ends idle connections. Calls under way go on, and later ones open new connections. */
  close(): void {
    this.#http.close()
  }
}

const admit: HttpStream['admit'] = async ({ status }, text) => {
  if (status === 200) return
  const advice = 'Standbys poll instead; add "watch" to the Role for speed.'
  throw new ApiError('A watch was not opened', { status, body: objectOf(await text()) }, advice)
}

function addressOf(server: unknown): URL {
  const rule = 'it must be the https: address of a Kubernetes API server'
  if (typeof server !== 'string' || !URL.canParse(server)) throw invalidOption('server', server, rule)
  const address = new URL(server)
  // A token must not cross a network in the clear.
  if (address.protocol !== 'https:') throw invalidOption('server', server, rule)
  // The address is shown in messages, this one as well.
  if (address.username || address.password) {
    throw invalidOption('server', address.host, 'the address of an API server must not contain a password')
  }
  return address
}
