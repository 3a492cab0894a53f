/**
 * Keeps elections in Google Cloud Storage. Each election has two objects, the record and the highest term, which are
 * overwritten only at the generation that was read.
 *
 * @module
 */
import { isLoopbackHost } from '@tenure/internal/loopback'
import { messageOf } from '@tenure/internal/message'
import { systemClock, type Clock } from '../../common/clock.ts'
import { invalidOption, isTenureError, TenureError } from '../../common/errors.ts'
import type { CallOptions } from '../../engine/lease-store.ts'
import { checkClock } from '../../engine/check-values.ts'
import { checkOptions, type OptionNames } from '../../common/check-options.ts'
import { bounded } from '../../store-kit/call-deadline.ts'
import type { VersionedValue } from '../../store-kit/cas-store.ts'
import type { Finding, InspectableStore } from '../../store-kit/diagnostics.ts'
import { objectPrefix, maxPageSize, objectOf, readRecords } from '../../store-kit/object-names.ts'
import { gcsFailure } from './failures.ts'
import { metadataFetch, type GcsFetch, type GcsRequest, type GcsResponse } from './fetch.ts'
import { findingsOfBucket } from './diagnostics.ts'
import { WriteLimiter } from './write-limiter.ts'
import type { Page } from '../../store-kit/list.ts'
import { twoObjectStore, type ObjectKind, type ObjectBackend } from '../../store-kit/two-object-store.ts'
import { parseObject } from '../../store-kit/record-fields.ts'

export type { InspectableStore } from '../../store-kit/diagnostics.ts'
export type { GcsFetch } from './fetch.ts'

/** Options of {@link gcsStore}. */
export interface GcsStoreOptions {
  readonly bucket: string
  /** Prefix of the object names. Default: `tenure`. */
  readonly prefix?: string | undefined
  /**
   * Sends each request with a header that identifies the caller. Default: uses the token of the machine's or pod's
   * service account, from its metadata server.
   */
  readonly fetch?: GcsFetch | undefined
  /** Another address for the service. Default: `https://storage.googleapis.com`. */
  readonly endpoint?: string | undefined
  /**
   * Minimum time between two writes of one object, because Google accepts one per second. A lease must last at least
   * three such intervals. Default: 1,100 ms.
   */
  readonly writeIntervalMs?: number | undefined
  readonly clock?: Clock | undefined
}

const names: OptionNames<GcsStoreOptions> = {
  bucket: true,
  prefix: true,
  fetch: true,
  endpoint: true,
  writeIntervalMs: true,
  clock: true,
}

/**
 * Keeps elections in a bucket of Google Cloud Storage.
 *
 * @example
 * const store = gcsStore({ bucket: 'my-company-leases' })
 * await lead({ store, election: 'nightly-report' }, work)
 */
export function gcsStore(options: GcsStoreOptions): InspectableStore {
  checkOptions('gcsStore()', options, names)
  const { bucket, prefix = 'tenure', writeIntervalMs = 1_100, clock = systemClock } = options
  const { endpoint = 'https://storage.googleapis.com', fetch: send = metadataFetch(clock) } = options
  checkClock(clock)
  if (typeof bucket !== 'string' || !/^[a-z0-9][a-z0-9._-]+$/.test(bucket)) {
    throw invalidOption('bucket', bucket, 'it must be the name of a bucket')
  }
  if (typeof send !== 'function') throw invalidOption('fetch', send, 'it must be a function such as fetch')
  if (!(writeIntervalMs > 0 && writeIntervalMs < 2 ** 31)) {
    throw invalidOption('writeIntervalMs', writeIntervalMs, 'it must be a number above 0')
  }
  const server = new GcsBucket({
    bucket,
    folder: objectPrefix(prefix),
    send,
    base: baseOf(endpoint),
    clock,
    writeIntervalMs,
  })
  const store = twoObjectStore(server, clock)
  return {
    ...store,
    acquire: async (claim, call) => {
      if (claim.leaseDurationMs >= 3 * writeIntervalMs) return store.acquire(claim, call)
      const text = `A lease of ${claim.leaseDurationMs} ms is too short for Google Cloud Storage, which accepts one write per second and object: a lease must allow three renewals. Use 10 s or more.`
      throw new TenureError('INVALID_TTL', text)
    },
    inspect: (call) => server.inspect(call),
  }
}

function baseOf(endpoint: unknown): string {
  const url = typeof endpoint === 'string' && URL.canParse(endpoint) ? new URL(endpoint) : undefined
  const isSafe = url?.protocol === 'https:' || (url?.protocol === 'http:' && isLoopbackHost(url.hostname))
  if (!url || !isSafe || url.search || url.hash || url.username) {
    throw invalidOption('endpoint', endpoint, 'it must be an https: URL, or an http: URL of this machine')
  }
  return url.href.replace(/\/$/, '')
}

interface GcsParts {
  readonly bucket: string
  readonly folder: string
  readonly send: GcsFetch
  readonly base: string
  readonly clock: Clock
  readonly writeIntervalMs: number
}

interface Answer {
  readonly response: GcsResponse
  readonly text: string
}

class GcsBucket implements ObjectBackend {
  readonly #parts: GcsParts
  readonly #pace: WriteLimiter

  constructor(parts: GcsParts) {
    this.#parts = parts
    this.#pace = new WriteLimiter(parts.clock, parts.writeIntervalMs)
  }

  get(election: string, kind: ObjectKind, call: CallOptions): Promise<VersionedValue | undefined> {
    return this.#bounded(call, (signal) => this.#read(objectOf(this.#parts.folder, election, kind), signal))
  }

  put(
    election: string,
    kind: ObjectKind,
    content: string,
    version: string | undefined,
    call: CallOptions,
  ): Promise<string | undefined> {
    return this.#bounded(call, async (signal) => {
      const { folder, clock } = this.#parts
      const name = objectOf(folder, election, kind)
      const notWritten = await this.#pace.turn(name, call.timeoutMs, signal)
      // Generation 0 means that the object must not exist.
      const condition = { ifGenerationMatch: version ?? '0' }
      const query = new URLSearchParams({ uploadType: 'multipart', ...condition, fields: 'generation' })
      const boundary = `tenure-${clock.randomId()}`
      // The object must never be served from a cache, even if the bucket is public.
      const metadata = { name, contentType: 'application/json', cacheControl: 'no-store' }
      const part = (text: string) => `--${boundary}\r\ncontent-type: application/json; charset=utf-8\r\n\r\n${text}\r\n`
      const body = `${part(JSON.stringify(metadata))}${part(content)}--${boundary}--\r\n`
      const headers = { 'content-type': `multipart/related; boundary=${boundary}` }
      const { response, text } = await this.#ask(`/upload${this.#path}/o?${query.toString()}`, {
        method: 'POST',
        headers,
        body,
        signal,
      })
      if (response.status === 412) {
        notWritten()
        return undefined
      }
      if (response.status !== 200) throw gcsFailure(response.status, text, this.#place)
      return generationIn(text)
    })
  }

  list({ after, limit }: Page, call: CallOptions) {
    return this.#bounded(call, async (signal) => {
      const { folder } = this.#parts
      const query = new URLSearchParams({
        prefix: folder,
        // Objects in subfolders do not belong to this store.
        delimiter: '/',
        maxResults: String(Math.min(limit, maxPageSize)),
        fields: 'items(name),nextPageToken',
        ...(after !== undefined && { pageToken: after }),
      })
      const { response, text } = await this.#get(`/o?${query.toString()}`, signal)
      if (response.status !== 200) throw gcsFailure(response.status, text, this.#place)
      const { items = [], nextPageToken: next } = parseObject(text)
      const values = await readRecords(folder, namesOf(items), (name) => this.#read(name, signal))
      return { values, next: typeof next === 'string' && next !== '' ? next : undefined }
    })
  }

  nameOf(election: string, kind: ObjectKind): string {
    return `gs://${this.#parts.bucket}/${objectOf(this.#parts.folder, election, kind)}`
  }

  /** Problems with the bucket's settings. Empty if the caller may not read them. */
  inspect(call: CallOptions): Promise<readonly Finding[]> {
    return this.#bounded(call, async (signal) => {
      const { bucket, folder } = this.#parts
      const fields = 'lifecycle,versioning,retentionPolicy,softDeletePolicy'
      const { response, text } = await this.#get(`?fields=${fields}`, signal)
      if (response.status === 403) return []
      if (response.status !== 200) throw gcsFailure(response.status, text, this.#place)
      return findingsOfBucket(parseObject(text), bucket, folder)
    })
  }

  async #read(object: string, signal: AbortSignal): Promise<VersionedValue | undefined> {
    const { response, text } = await this.#get(`/o/${encodeURIComponent(object)}?alt=media`, signal)
    if (response.status === 200) return { value: text, version: response.headers.get('x-goog-generation') ?? '' }
    if (response.status === 404 && !text.includes('bucket does not exist')) return undefined
    throw gcsFailure(response.status, text, this.#place)
  }

  /** Sends a GET to a path under the bucket's URL. */
  #get(path: string, signal: AbortSignal): Promise<Answer> {
    return this.#ask(`${this.#path}${path}`, { method: 'GET', headers: {}, signal })
  }

  async #ask(path: string, request: GcsRequest): Promise<Answer> {
    const { base, send } = this.#parts
    const response = await send(`${base}${path}`, request)
    return { response, text: await response.text() }
  }

  get #path(): string {
    return `/storage/v1/b/${this.#parts.bucket}`
  }

  get #place(): string {
    return `gs://${this.#parts.bucket}/${this.#parts.folder}`
  }

  async #bounded<T>(call: CallOptions, action: (signal: AbortSignal) => Promise<T>): Promise<T> {
    try {
      return await bounded(this.#parts.clock, 'Google Cloud Storage', call, action)
    } catch (error) {
      if (call.signal.aborted || isTenureError(error)) throw error
      const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error
      const text = `Google Cloud Storage cannot be reached (${this.#place}): ${messageOf(cause)}.`
      throw new TenureError('BACKEND_UNAVAILABLE', text, { retryable: true, cause: error })
    }
  }
}

function generationIn(text: string): string {
  const { generation } = parseObject(text)
  if (typeof generation === 'string' && /^[1-9]\d*$/.test(generation)) return generation
  // The outcome of this write is unknown. The next read shows it.
  throw new TenureError('RECORD_INVALID', 'Google Cloud Storage returned no generation for a write.')
}

function namesOf(items: unknown): string[] {
  if (!Array.isArray(items)) return []
  return items.flatMap((item: unknown) => {
    const name: unknown = typeof item === 'object' && item ? Reflect.get(item, 'name') : undefined
    return typeof name === 'string' ? name : []
  })
}
