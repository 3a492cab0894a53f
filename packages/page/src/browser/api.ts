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

/** The server has refused, or could not be asked (`status` 0). */
export class Refused extends Error {
  readonly status: number

  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}

/** Asks the server that the page came from. Addresses are relative: behind a path prefix they are below it. */
export class Api {
  /** In memory alone: it is gone with the page. */
  token: string | undefined

  async stream(groups: readonly string[], signal: AbortSignal): Promise<ReadableStream<Uint8Array>> {
    const answer = await this.#ask(`v1/watch?renewals=true&groups=${listOf(groups)}`, signal, {
      headers: { accept: 'text/event-stream' },
    })
    if (!answer.body) throw new Refused(answer.status, 'The server sends no stream.')
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

  /** Resolves as soon as the server says anything at all, and rejects if it says nothing for a while. */
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

  async resign(id: string, node_id: string, term: number): Promise<void> {
    await this.#send('POST', `v1/groups/${encodeURIComponent(id)}/resign`, { node_id, term, force: true })
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
      // No cookie goes along, and no answer is kept.
      answer = await fetch(path, { ...init, headers, signal, credentials: 'omit', cache: 'no-store' })
    } catch {
      throw new Refused(0, 'The server cannot be reached.')
    }
    if (answer.ok) return answer
    const failure = (await answer.json().catch(() => ({}))) as FailureAnswer
    throw new Refused(answer.status, failure.message ?? `The server answers with status ${answer.status}.`)
  }
}

/** Names may have commas in them, so each is encoded by itself. */
function listOf(groups: readonly string[]): string {
  return groups.map((group) => encodeURIComponent(group)).join(',')
}
