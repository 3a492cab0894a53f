import { systemClock, type Clock } from '../../common/clock.ts'
import { invalidOption } from '../../common/errors.ts'
import { objectOf } from '../http/body.ts'
import { HttpClient, type HttpCall, type HttpStream } from '../http/http-client.ts'
import { ApiError, type ApiAnswer } from './api-error.ts'
import type { Connection, ConfiguredNamespace } from './connection.ts'

/** One call to the API server. */
export type ApiCall = Omit<HttpCall, 'headers'>

/** A watch: an endless answer with one JSON object per line. */
export interface ApiWatch extends Pick<HttpStream, 'path' | 'signal' | 'silenceMs'> {
  /** Whether the caller does not need this line, so that it is not parsed. */
  readonly skip?: ((line: string) => boolean) | undefined
}

/**
 * A small client of the Kubernetes API with keep-alive connections, a deadline for each call, and watches that detect
 * silence. `inCluster()` and `fromKubeConfig()` return one.
 *
 * @example
 * const client = inCluster()
 * const store = kubernetesStore({ client, namespace: 'jobs' })
 */
export class KubernetesClient {
  /** The API server's URL. */
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

  /** The namespace of this pod or context. Undefined if it is unknown. @internal */
  configuredNamespace?(): ConfiguredNamespace | undefined {
    return this.#connection.configuredNamespace?.()
  }

  /**
   * Sends one request. Rejects if the outcome is unknown. Resolves for any answer from the server, whatever its status.
   */
  async request(call: ApiCall): Promise<ApiAnswer> {
    const { status, text } = await this.#http.request(call)
    return { status, body: objectOf(text) }
  }

  /** Opens a watch. Rejects with an `ApiError` if the server refuses it. Ends when the server ends it. */
  async *watch({ skip, ...watch }: ApiWatch): AsyncGenerator<unknown, void, undefined> {
    for await (const line of this.#http.lines({ ...watch, admit })) if (!skip?.(line)) yield objectOf(line)
  }

  /** Closes idle connections. Calls in flight continue, and later calls open new connections. */
  close(): void {
    this.#http.close()
  }
}

const admit: HttpStream['admit'] = async ({ status }, text) => {
  if (status === 200) return
  const advice = 'Standbys poll instead. Add "watch" to the Role for faster takeovers.'
  throw new ApiError('A watch could not be opened', { status, body: objectOf(await text()) }, advice)
}

function addressOf(server: unknown): URL {
  const rule = 'it must be the https: URL of a Kubernetes API server'
  if (typeof server !== 'string' || !URL.canParse(server)) throw invalidOption('server', server, rule)
  const address = new URL(server)
  // A token must not cross a network unencrypted.
  if (address.protocol !== 'https:') throw invalidOption('server', server, rule)
  // Remove the password, because errors show the address.
  if (address.username || address.password) {
    throw invalidOption('server', address.host, 'the URL of an API server must not contain a password')
  }
  return address
}
