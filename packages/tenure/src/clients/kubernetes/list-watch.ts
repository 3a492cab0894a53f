/**
 * List, then watch: follows a collection of the API server. An interrupted watch is resumed at its last version. If the
 * server no longer has that version, everything is read again.
 */
import type { Clock } from '../../common/clock.ts'
import { isTenureError, TenureError } from '../../common/errors.ts'
import { isAnswerTooLong } from '../http/body.ts'
import type { CallTimeouts } from '../http/http-client.ts'
import { isObject } from '@tenure/internal/objects'
import { ApiError, isApiError, type ApiAnswer } from './api-error.ts'
import type { ApiWatch, KubernetesClient } from './client.ts'

/** A state, and the version from which a watch shows each later change. */
export interface SeenVersion<State> {
  readonly state: State
  readonly from: string
}

/** The collection to follow, and how to follow it. */
export interface Following<State> {
  readonly client: Pick<KubernetesClient, 'watch'>
  readonly clock: Clock
  /** The path of the collection. */
  readonly path: string
  /** Follows only the object of this name, which does not need the permission to list. */
  readonly name?: string | undefined
  readonly signal: AbortSignal
  /** Reads the state. `again` is true if the server no longer has the version of the last read. */
  look(again: boolean): Promise<SeenVersion<State>>
  /** How long the watch may be silent before it is no longer trusted. Called again after each event. */
  silenceMs(): number
  /** See {@link ApiWatch.skip}. */
  readonly skip?: ApiWatch['skip']
}

/** The state, at the beginning and whenever it had to be read again, and each change. Some changes may arrive twice. */
export type Followed<State> =
  | { readonly type: 'all'; readonly state: State }
  | { readonly type: 'put' | 'deleted'; readonly object: Record<string, unknown> }

/** Starts a watch from any state that the server has available. The server sends that state first. */
export const anyVersion = '0'

/** A watch that lasted this long may be resumed immediately. If it ends sooner, the caller decides when to retry. */
const settledMs = 5_000
/** The longest silence of a watch. The API server sends a bookmark every minute when bookmarks are requested. */
const bookmarkedMs = 90_000

/**
 * Follows a collection until the signal aborts. Ends or throws if it could continue only by retrying in a tight loop.
 * In that case, the caller should wait for a while and start again.
 */
export async function* follow<State>(followed: Following<State>): AsyncGenerator<Followed<State>, void, undefined> {
  const { client, clock, signal, skip } = followed
  let from: string | undefined
  let againMs = -Infinity
  for (;;) {
    if (from === undefined) {
      const seen = await followed.look(againMs !== -Infinity)
      yield { type: 'all', state: seen.state }
      from = seen.from
    }
    const openedMs = clock.monotonicMs()
    const longestMs = from === anyVersion ? Infinity : bookmarkedMs
    const silenceMs = () => Math.min(longestMs, followed.silenceMs())
    try {
      for await (const event of client.watch({ path: watchPath(followed, from), signal, silenceMs, skip })) {
        const { type, object, version } = readEvent(event)
        from = version
        if (type !== 'BOOKMARK') yield { type: type === 'DELETED' ? 'deleted' : 'put', object }
      }
      if (clock.monotonicMs() - openedMs < settledMs) return
    } catch (error) {
      const nowMs = clock.monotonicMs()
      // The history up to this version is gone, so read the state again. This is done only once. After that, the caller
      // decides when to retry.
      const gone = isApiError(error) && error.status === 410 && nowMs - againMs >= settledMs
      const cut = isTenureError(error) && error.retryable && nowMs - openedMs >= settledMs
      if (!gone && !cut) throw error
      // Silence can mean that the server's versions have restarted, for example after a restored backup.
      if (!gone && isTenureError(error) && error.code !== 'TIMEOUT') continue
      from = undefined
      againMs = nowMs
    }
  }
}

function watchPath({ path, name, clock }: Pick<Following<unknown>, 'path' | 'name' | 'clock'>, from: string): string {
  const query = new URLSearchParams({
    watch: '1',
    ...(name !== undefined && { fieldSelector: `metadata.name=${name}` }),
    // Randomized, so that the watches of a fleet do not all end at once.
    timeoutSeconds: String(Math.round(300 * (1 + clock.random()))),
    resourceVersion: from,
    // With bookmarks, a watch from any version requires a feature that the API server lacks with etcd before 3.4.25.
    ...(from !== anyVersion && { allowWatchBookmarks: 'true' }),
  })
  return `${path}?${query.toString()}`
}

function readEvent(event: unknown): { type: string; object: Record<string, unknown>; version: string } {
  const { type, object } = isObject(event) ? event : {}
  if (type === 'ERROR') {
    const status = isObject(object) && typeof object['code'] === 'number' ? object['code'] : 500
    throw new ApiError('A watch ended', { status, body: object })
  }
  const version = versionOf(object)
  if (!isObject(object) || version === undefined) {
    throw new TenureError('RECORD_INVALID', 'A watch sent an event that is not a Kubernetes API object.')
  }
  return { type: String(type), object, version }
}

/** The version of an object or a list. Undefined if it has none. */
export function versionOf(object: unknown): string | undefined {
  const { metadata } = isObject(object) ? object : {}
  const { resourceVersion } = isObject(metadata) ? metadata : {}
  return typeof resourceVersion === 'string' && resourceVersion !== '' ? resourceVersion : undefined
}

const pageLimit = 100
/** How many times a listing is restarted because the server no longer has the version of its pages. */
const mostListings = 3

/** The collection to list, and how to report a refusal. */
interface ResourceList extends CallTimeouts {
  /** The collection's path. */
  readonly path: string
  /** Returns the error if the API server does not answer with a list. */
  failed(answer: ApiAnswer): Error
}

/** All items of a collection at one version, read page by page. */
export async function listAll(
  client: Pick<KubernetesClient, 'request'>,
  listing: ResourceList,
): Promise<SeenVersion<readonly unknown[]>> {
  for (let listings = 1, limit = pageLimit; ;) {
    try {
      return await list(client, listing, limit)
    } catch (error) {
      if (isAnswerTooLong(error) && limit > 1) limit = Math.ceil(limit / 10)
      else if (isApiError(error) && error.status === 410 && listings < mostListings) listings++
      else throw error
    }
  }
}

async function list(
  client: Pick<KubernetesClient, 'request'>,
  { path, failed, ...call }: ResourceList,
  limit: number,
): Promise<SeenVersion<readonly unknown[]>> {
  const state: unknown[] = []
  for (let after = ''; ;) {
    const query = new URLSearchParams({ limit: String(limit), ...(after !== '' && { continue: after }) })
    const answer = await client.request({ method: 'GET', path: `${path}?${query.toString()}`, ...call })
    const { items, metadata } = isObject(answer.body) ? answer.body : {}
    const from = versionOf(answer.body)
    if (answer.status !== 200 || !Array.isArray(items) || from === undefined) throw failed(answer)
    for (const item of items) state.push(item)
    const { continue: next } = isObject(metadata) ? metadata : {}
    if (typeof next !== 'string' || next === '') return { state, from }
    after = next
  }
}
