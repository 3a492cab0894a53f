import type {
  ChangesAnswer,
  FailureAnswer,
  GroupAnswer,
  GroupsAnswer,
  IdentityAnswer,
  MembersAnswer,
  ReplicasAnswer,
} from '../model/answers.ts'
import { after } from './clock.ts'

const answerMs = 10_000

/** The server refused the request, or could not be reached (`status` 0). */
export class Refused extends Error {
  readonly status: number

  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}

/** Calls the server that the page came from. URLs are relative, so the page works behind a path prefix. */
export class Api {
  /** The token, kept only in memory. It is gone when the page is closed. */
  token: string | undefined

  async stream(groups: readonly string[], signal: AbortSignal): Promise<ReadableStream<Uint8Array>> {
    const answer = await this.#ask(`v1/watch?renewals=true&groups=${listOf(groups)}`, signal, {
      headers: { accept: 'text/event-stream' },
    })
    if (!answer.body) throw new Refused(answer.status, 'The server did not send a stream.')
    return answer.body
  }

  groups(
    query: { search: string; after: string | undefined; limit: number },
    signal?: AbortSignal,
  ): Promise<GroupsAnswer> {
    const { search, after: from, limit } = query
    const given = new URLSearchParams({
      limit: String(limit),
      ...(search !== '' && { search }),
      ...(from !== undefined && { after: from }),
    })
    return this.#json(`v1/groups?${given.toString()}`, signal)
  }

  async group(id: string): Promise<GroupAnswer> {
    const { group } = await this.#json<{ group: GroupAnswer }>(`v1/groups/${encodeURIComponent(id)}`)
    return group
  }

  members(id: string): Promise<MembersAnswer> {
    return this.#json(`v1/groups/${encodeURIComponent(id)}/members`)
  }

  changes(groups: readonly string[], signal?: AbortSignal): Promise<ChangesAnswer> {
    return this.#json(`v1/changes?limit=999&groups=${listOf(groups)}`, signal)
  }

  identity(): Promise<IdentityAnswer> {
    return this.#json('v1/identity')
  }

  replicas(): Promise<ReplicasAnswer> {
    return this.#json('v1/replicas')
  }

  /** Resolves as soon as the server answers. Rejects if it does not answer in time. */
  async ping(withinMs: number): Promise<void> {
    const ended = new AbortController()
    const cancel = after(withinMs, () => ended.abort())
    try {
      await this.#ask('healthz', ended.signal, {})
    } catch (error) {
      if (error instanceof Refused && error.status > 0) return
      throw new Refused(0, ended.signal.aborted ? 'The server does not answer.' : 'The server cannot be reached.')
    } finally {
      cancel()
    }
  }

  /** `successor` is the node that should lead next. Undefined if it may be any. */
  async resign(id: string, node_id: string, term: number, successor?: string): Promise<void> {
    const body = { node_id, term, force: true, ...(successor !== undefined && { successor }) }
    await this.#send('POST', `v1/groups/${encodeURIComponent(id)}/resign`, body)
  }

  async remove(id: string): Promise<void> {
    await this.#send('DELETE', `v1/groups/${encodeURIComponent(id)}?force=true`)
  }

  async #json<T>(path: string, signal?: AbortSignal): Promise<T> {
    const ended = new AbortController()
    const end = () => ended.abort()
    const cancel = after(answerMs, end)
    signal?.addEventListener('abort', end, { once: true })
    try {
      const answer = await this.#ask(path, ended.signal, {})
      return (await answer.json()) as T
    } finally {
      cancel()
      signal?.removeEventListener('abort', end)
    }
  }

  async #send(method: string, path: string, body?: object): Promise<void> {
    const ended = new AbortController()
    const cancel = after(answerMs, () => ended.abort())
    const headers = { ...(body && { 'content-type': 'application/json' }) }
    try {
      await this.#ask(path, ended.signal, { method, headers, ...(body && { body: JSON.stringify(body) }) })
    } finally {
      cancel()
    }
  }

  async #ask(
    path: string,
    signal: AbortSignal,
    init: Omit<RequestInit, 'headers'> & { headers?: Record<string, string> },
  ): Promise<Response> {
    const authorization = this.token === undefined ? undefined : { authorization: `Bearer ${this.token}` }
    const headers = { ...init.headers, ...authorization }
    let answer: Response
    try {
      // Send no cookies, and cache no answer.
      answer = await fetch(path, { ...init, headers, signal, credentials: 'omit', cache: 'no-store' })
    } catch {
      throw new Refused(0, 'The server cannot be reached.')
    }
    if (answer.ok) return answer
    const failure = (await answer.json().catch(() => ({}))) as FailureAnswer
    throw new Refused(answer.status, failure.message ?? `The server answered with status ${answer.status}.`)
  }
}

/** Encodes each name on its own, because names may contain commas. */
function listOf(groups: readonly string[]): string {
  return groups.map((group) => encodeURIComponent(group)).join(',')
}
