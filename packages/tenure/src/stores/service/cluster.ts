import type { Clock } from '../../clock.ts'
import { isTenureError, TenureError } from '../../errors.ts'
import { HttpClient, type Head, type HttpAnswer, type HttpCall, type HttpStream } from '../../http/http-client.ts'
import type { CallOptions } from '../../lease-store.ts'
import { credentialsOf, type ServiceCredentials } from './options.ts'
import { errorOf, jsonOf, misunderstood, Nonsense } from './service-error.ts'

/** What the service was asked and has answered: what was wanted, or that somebody else leads. */
export interface Reply {
  readonly refused: boolean
  readonly body: Record<string, unknown>
}

interface Member {
  readonly name: string
  readonly http: HttpClient
}

const defaultTimeoutMs = 10_000
const clusterHeader = 'tenure-cluster-id'

/** The addresses of one cluster: what one of them does not answer, the next is asked. */
export class Cluster {
  readonly #members: readonly Member[]
  readonly #clock: Clock
  /** The one that answered last. */
  #current = 0
  /** Of the first answer. From then on no other cluster is believed, nor asked for anything. */
  #id: string | undefined

  constructor(addresses: readonly URL[], credentials: ServiceCredentials, clock: Clock) {
    this.#clock = clock
    this.#members = addresses.map((base) => {
      const name = `The election service at ${base.href.replace(/\/$/, '')}`
      return { name, http: new HttpClient({ name, base, credentials: () => credentialsOf(credentials) }, clock) }
    })
  }

  /** Sends a request within one deadline for all addresses, and gives what `take` makes of an expected answer. */
  call<T>(
    request: Pick<HttpCall, 'method' | 'path' | 'body'>,
    { signal, timeoutMs = defaultTimeoutMs }: CallOptions,
    take: (reply: Reply) => T,
    expected: readonly number[] = [200],
  ): Promise<T> {
    const deadlineMs = this.#clock.monotonicMs() + timeoutMs
    return this.#anyMember(signal, async ({ name, http }, othersLeft) => {
      const leftMs = Math.max(1, deadlineMs - this.#clock.monotonicMs())
      // A share for each address: one that hangs must not use up the time of those that would answer.
      const share = { signal, timeoutMs: leftMs / (othersLeft + 1) }
      const answer = await http.request({ ...request, ...share, headers: this.#headers() })
      const reply = this.#judge(name, answer, expected)
      try {
        return take(reply)
      } catch (error) {
        throw error instanceof Nonsense ? misunderstood(name, error.message, answer.status) : error
      }
    })
  }

  /** The lines of an event stream. Another address is asked only if it cannot be opened. */
  async *stream(
    path: string,
    headers: Readonly<Record<string, string>>,
    { signal, silenceMs }: Pick<HttpStream, 'signal' | 'silenceMs'>,
  ): AsyncGenerator<string, void, undefined> {
    const lines = await this.#anyMember(signal, async ({ name, http }) => {
      const stream = http.lines({
        path,
        headers: { ...this.#headers(), accept: 'text/event-stream', ...headers },
        signal,
        silenceMs,
        admit: (head, text) => this.#admit(name, head, text),
      })
      return { first: await stream.next(), stream }
    })
    const { first, stream } = lines
    try {
      if (first.done) return
      yield first.value
      yield* stream
    } finally {
      await stream.return()
    }
  }

  close(): void {
    for (const { http } of this.#members) http.close()
  }

  async #anyMember<T>(signal: AbortSignal, ask: (member: Member, othersLeft: number) => Promise<T>): Promise<T> {
    const count = this.#members.length
    const start = this.#current
    let failure: unknown
    for (let tried = 0; tried < count; tried++) {
      const index = (start + tried) % count
      const member = this.#members[index]
      if (!member) break
      try {
        const result = await ask(member, count - tried - 1)
        this.#current = index
        return result
      } catch (error) {
        if (signal.aborted || !isTenureError(error) || !othersMayKnow.has(error.code)) throw error
        // That an address leads to other data is what must be told, whatever else went wrong.
        if (!isTenureError(failure) || failure.code !== 'WRONG_CLUSTER') failure = error
      }
    }
    throw failure
  }

  #headers(): Record<string, string> {
    return this.#id === undefined ? {} : { [clusterHeader]: this.#id }
  }

  #judge(name: string, answer: HttpAnswer, expected: readonly number[]): Reply {
    const { status, headers, text } = answer
    this.#checkCluster(name, answer)
    const body = jsonOf(headers, text)
    const refused = status === 409 && body?.['error'] === 'NOT_LEADER'
    if (!expected.includes(status) && !refused) throw errorOf(name, answer)
    if (!body) throw misunderstood(name, `${status} without an object of JSON`, status)
    this.#adopt(name, answer)
    return { refused, body }
  }

  async #admit(name: string, head: Head, text: () => Promise<string>): Promise<void> {
    this.#checkCluster(name, head)
    if (head.status !== 200) throw errorOf(name, { ...head, text: await text() })
    const type = head.headers['content-type'] ?? 'nothing'
    if (!/^text\/event-stream\b/i.test(type)) {
      throw misunderstood(name, 'a watch gave no event stream; does a proxy stand in between?', head.status)
    }
    this.#adopt(name, head)
  }

  /** Fails closed: a lease of another cluster is held by nobody here, and its terms are not ours. */
  #checkCluster(name: string, { headers }: Head): void {
    const id = headers[clusterHeader]
    if (id === undefined || this.#id === undefined || id === this.#id) return
    const text = `${name} keeps the data of cluster ${shown(id)}, but this store has worked with cluster ${shown(this.#id)} before. Nothing is believed or asked of it. Name addresses of one cluster only; after its data were replaced on purpose, start anew.`
    throw new TenureError('WRONG_CLUSTER', text)
  }

  #adopt(name: string, { status, headers }: Head): void {
    const id = headers[clusterHeader]
    if (typeof id !== 'string' || id === '') throw misunderstood(name, `there is no ${clusterHeader}`, status)
    this.#id ??= id
  }
}

/** Whatever else an address answers, the others would answer too. */
const othersMayKnow: ReadonlySet<string> = new Set(['TIMEOUT', 'BACKEND_UNAVAILABLE', 'WRONG_CLUSTER'])

function shown(id: string | string[]): string {
  return `"${String(id)
    .replaceAll(/[^\w.-]/g, '?')
    .slice(0, 64)}"`
}
