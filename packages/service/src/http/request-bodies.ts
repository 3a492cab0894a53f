import { isUtf8 } from 'node:buffer'
import type { FastifyRequest } from 'fastify'
import { hasKeyTwice } from '../auth/strict-json.ts'
import { ServiceError } from '../common/errors.ts'
import { isBatch, isQuicklyParsed } from './body-scan.ts'
import type { Limits } from './limits.ts'
import type { App } from './service.ts'

/** The size limit of all bodies except batches. */
export const bodyBytes = 65_536
export const batchBodyBytes = 4 * 2 ** 20
/** A body larger than this waits for its turn to be parsed. */
export const largeBytes = 65_536

/** Returns the expected size of the body, at most the size limit of the route. */
export function announcedBytes(request: FastifyRequest): number {
  const { headers, routeOptions } = request
  const { bodyLimit } = routeOptions
  if (!isAnnounced(request)) return bodyLimit
  return Math.min(Number(headers['content-length'] ?? 0), bodyLimit)
}

export function isAnnounced({ headers }: FastifyRequest): boolean {
  return headers['transfer-encoding'] === undefined
}

type ParserCallback = (error: Error | null, value?: unknown) => void

/** Parses bodies as JSON that every parser reads in the same way. Large bodies take turns. */
export function parseBodies(app: App, limits: Limits): void {
  const withoutPrototypes = app.getDefaultJsonParser('error', 'error')
  const parse = (request: FastifyRequest, body: Buffer, done: ParserCallback): void => {
    // Decoding would replace invalid bytes, and two different names could become equal.
    if (!isUtf8(body)) return done(malformed('The body must be UTF-8.'))
    if (request.routeOptions.config.isBatch) return parseBatch(body, done)
    if (!isQuicklyParsed(body)) return done(malformed('The body is nested too deeply, or has too many values.'))
    const text = body.toString()
    void withoutPrototypes(request, text, (error, value) => {
      if (!error && hasKeyTwice(text)) return done(malformed('An object in the body has a duplicate key.'))
      done(error, value)
    })
  }
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, (request, body: Buffer, done) => {
    if (body.length === 0 && request.method === 'DELETE') return done(null)
    try {
      if (!isAnnounced(request)) limits.body(request, body.length)
    } catch (error) {
      return done(error as Error)
    }
    request.bodyBytes = body.length
    if (body.length <= largeBytes) return parse(request, body, done)
    request.leaveTurn = limits.turn(request, () => parse(request, body, done))
  })
}

function parseBatch(body: Buffer, done: ParserCallback): void {
  const outline = 'node_id and renewals, each once; each renewal has group_id, term, and extend_by_ms, each once'
  if (!isBatch(body)) return done(malformed(`The body must be a batch: ${outline}.`))
  try {
    done(null, JSON.parse(body.toString()))
  } catch {
    done(malformed('The body is not valid JSON.'))
  }
}

function malformed(text: string): ServiceError {
  return new ServiceError('INVALID_REQUEST', text)
}
