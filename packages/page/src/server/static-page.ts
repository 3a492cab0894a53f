/** The page as served by every server: the same few files with the same headers. */
import { files, html, type BuiltFile } from '#files'
import { createHash } from 'node:crypto'
import { gunzipSync } from 'node:zlib'

/** The headers of a request that affect the answer. */
export interface RequestHeaders {
  readonly accept?: string | undefined
  readonly 'accept-encoding'?: string | string[] | undefined
  readonly 'if-none-match'?: string | undefined
}

/** A complete HTTP response. */
export interface Sent {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
}

/** The path of the page's files. */
export const filesPath = '/page/'

/**
 * The page runs only its own script, no matter what names and metadata contain. No other page can frame it, and it
 * connects only to the server that it came from.
 */
const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "img-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join('; ')

const guards = {
  'content-security-policy': policy,
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
}

class CachedFile {
  readonly #type: string
  readonly #gzip: Buffer
  readonly #plain: Buffer
  readonly #caching: string
  readonly #etag: string

  constructor({ type, gzip }: Omit<BuiltFile, 'name'>, caching: string) {
    this.#type = type
    this.#gzip = Buffer.from(gzip, 'base64')
    this.#plain = gunzipSync(this.#gzip)
    this.#caching = caching
    this.#etag = `"${createHash('sha256').update(this.#plain).digest('base64url').slice(0, 22)}"`
  }

  answer(requestHeaders: RequestHeaders): Sent {
    const headers = {
      ...guards,
      'content-type': this.#type,
      'cache-control': this.#caching,
      etag: this.#etag,
      vary: 'accept, accept-encoding',
    }
    if (requestHeaders['if-none-match'] === this.#etag) return { status: 304, headers, body: Buffer.alloc(0) }
    const takesGzip = /\bgzip\b(?!;\s*q=0(?:\.0*)?\s*(?:,|$))/.test(String(requestHeaders['accept-encoding'] ?? ''))
    if (!takesGzip) return { status: 200, headers, body: this.#plain }
    return { status: 200, headers: { ...headers, 'content-encoding': 'gzip' }, body: this.#gzip }
  }
}

/** These file names change with their content, so the files may be cached forever. */
const kept = new Map(files.map((file) => [file.name, new CachedFile(file, 'public, max-age=31536000, immutable')]))
const entry = new CachedFile(html, 'no-cache')

/** Returns a file of the page by its name below {@link filesPath}, or undefined if there is none. */
export function pageFile(name: string, requestHeaders: RequestHeaders): Sent | undefined {
  return kept.get(name)?.answer(requestHeaders)
}

/** Returns the answer for `/`: the page for browsers, and a short text for all other clients such as curl. */
export function pageOrText(text: string, requestHeaders: RequestHeaders): Sent {
  if (requestHeaders.accept?.includes('text/html')) return entry.answer(requestHeaders)
  const headers = {
    ...guards,
    'content-type': 'text/plain; charset=utf-8',
    'cache-control': 'no-cache',
    vary: 'accept',
  }
  return { status: 200, headers, body: Buffer.from(text) }
}
