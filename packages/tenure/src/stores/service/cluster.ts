import type { Clock } from '../../common/clock.ts'
import { TenureError } from '../../common/errors.ts'
import { MalformedResponse } from '../../clients/http/body.ts'
import { Endpoints } from '../../clients/http/endpoints.ts'
import type { Head, HttpAnswer, HttpCall, HttpStream } from '../../clients/http/http-client.ts'
import type { CallOptions } from '../../engine/lease-store.ts'
import { tokenCredentialsOf, type TokenCredentials } from '../../clients/http/bearer-token.ts'
import { errorOf, jsonOf, malformedResponse } from './answer-error.ts'

/** An answer from the service: the expected one, or a refusal because another node leads. */
export interface ServiceReply {
  readonly refused: boolean
  readonly body: Record<string, unknown>
}

const clusterHeader = 'tenure-cluster-id'

/** The addresses of one cluster. */
export class Cluster {
  readonly #endpoints: Endpoints
  /**
   * The cluster id of the first answer. After that, the store rejects answers from any other cluster and sends it
   * nothing more.
   */
  #id: string | undefined

  constructor(addresses: readonly URL[], credentials: TokenCredentials, clock: Clock) {
    const peers = addresses.map((base) => ({
      name: `The election service at ${base.href.replace(/\/$/, '')}`,
      base,
      credentials: () => tokenCredentialsOf(credentials),
    }))
    this.#endpoints = new Endpoints(peers, clock, ['WRONG_CLUSTER'])
  }

  /** Sends a request, with one deadline for all addresses. Returns the result of `take` for an expected answer. */
  call<T>(
    request: Pick<HttpCall, 'method' | 'path' | 'body'>,
    call: CallOptions,
    take: (reply: ServiceReply) => T,
    expected: readonly number[] = [200],
  ): Promise<T> {
    return this.#endpoints.ask(call, async ({ name, http }, share) => {
      const answer = await http.request({ ...request, ...share, headers: this.#headers() })
      const reply = this.#judge(name, answer, expected)
      try {
        return take(reply)
      } catch (error) {
        throw error instanceof MalformedResponse ? malformedResponse(name, error.message, answer.status) : error
      }
    })
  }

  /** The lines of an event stream. Tries another address only if the stream cannot be opened. */
  stream(
    path: string,
    headers: Readonly<Record<string, string>>,
    { signal, silenceMs }: Pick<HttpStream, 'signal' | 'silenceMs'>,
  ): AsyncGenerator<string, void, undefined> {
    return this.#endpoints.stream(signal, ({ name, http }) =>
      http.lines({
        path,
        headers: { ...this.#headers(), accept: 'text/event-stream', ...headers },
        signal,
        silenceMs,
        admit: (head, text) => this.#admit(name, head, text),
      }),
    )
  }

  close(): void {
    this.#endpoints.close()
  }

  #headers(): Record<string, string> {
    return this.#id === undefined ? {} : { [clusterHeader]: this.#id }
  }

  #judge(name: string, answer: HttpAnswer, expected: readonly number[]): ServiceReply {
    const { status, headers, text } = answer
    this.#checkCluster(name, answer)
    const body = jsonOf(headers, text)
    const refused = status === 409 && body?.['error'] === 'NOT_LEADER'
    if (!expected.includes(status) && !refused) throw errorOf(name, answer)
    if (!body) throw malformedResponse(name, `${status} without a JSON object`, status)
    this.#adopt(name, answer)
    return { refused, body }
  }

  async #admit(name: string, head: Head, text: () => Promise<string>): Promise<void> {
    this.#checkCluster(name, head)
    if (head.status !== 200) throw errorOf(name, { ...head, text: await text() })
    const type = head.headers['content-type'] ?? 'nothing'
    if (!/^text\/event-stream\b/i.test(type)) {
      throw malformedResponse(name, 'the watch returned no event stream (check for a proxy in between)', head.status)
    }
    this.#adopt(name, head)
  }

  /** Fails closed. A lease in another cluster does not count here, and neither do its terms. */
  #checkCluster(name: string, { headers }: Head): void {
    const id = headers[clusterHeader]
    if (id === undefined || this.#id === undefined || id === this.#id) return
    const text = `${name} keeps the data of cluster ${shown(id)}, but this store was using cluster ${shown(this.#id)}, so it ignores that address. Configure addresses of one cluster only. If the data was replaced on purpose, restart this program.`
    throw new TenureError('WRONG_CLUSTER', text)
  }

  #adopt(name: string, { status, headers }: Head): void {
    const id = headers[clusterHeader]
    if (typeof id !== 'string' || id === '') throw malformedResponse(name, `it has no ${clusterHeader} header`, status)
    this.#id ??= id
  }
}

function shown(id: string | string[]): string {
  return `"${String(id)
    .replaceAll(/[^\w.-]/g, '?')
    .slice(0, 64)}"`
}
