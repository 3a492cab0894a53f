import type { IncomingMessage, ServerResponse } from 'node:http'
import { callSafely } from '@tenure/internal/call-safely'
import { invalidOption, isTenureError } from '../common/errors.ts'
import { checkOptions } from '../common/check-options.ts'
import type { Fence } from './fence.ts'
import { parseTerm } from './term.ts'

/**
 * The header with the sender's term, in decimal digits.
 *
 * @example
 * await fetch(url, { method: 'PUT', headers: { [termHeader]: String(leadership.term) }, body })
 */
export const termHeader = 'tenure-term'

/** Options of {@link httpFence}. */
export interface HttpFenceOptions {
  readonly fence: Pick<Fence, 'check'>
  /** Called with any error that the handler threw, except `STALE_TERM`. Default: a process warning. */
  readonly onError?: ((error: unknown, request: IncomingMessage) => void) | undefined
}

/** A `node:http` handler that also gets the sender's term. */
export type FencedHandler = (request: IncomingMessage, response: ServerResponse, term: number) => void | Promise<void>

/**
 * A guard for a `node:http` handler. A request without exactly one valid term is answered with 400, and one with a term
 * below the highest accepted term with 409. The handler sees neither.
 *
 * A request is checked when its headers arrive, and a newer leader may write while the body is read. So the handler
 * must check again when it writes, with `fence.run`. A `STALE_TERM` thrown there is also answered with 409. A client
 * that sends a very high term locks out everyone else, so authenticate requests first.
 *
 * @example
 * const fence = createFence({ resource: 'report', highestTerm: saved.term })
 * const server = createServer(httpFence({ fence }, async (request, response, term) => {
 *   const body = await text(request)
 *   await fence.run(term, () => save({ term, body }))
 *   response.end('saved')
 * }))
 *
 * @example
 * // Several elections: one guard each, for a fixed set of names.
 * const guarded = new Map(names.map((name) => [name, httpFence({ fence: createFence({ resource: name }) }, handler)]))
 */
export function httpFence(
  options: HttpFenceOptions,
  handler: FencedHandler,
): (request: IncomingMessage, response: ServerResponse) => void {
  checkOptions('httpFence()', options, { fence: true, onError: true })
  const { fence, onError = warn } = options
  if (typeof fence?.check !== 'function') throw invalidOption('fence', fence, 'it must come from createFence()')
  if (typeof onError !== 'function') throw invalidOption('onError', onError, 'it must be a function')
  if (typeof handler !== 'function') throw invalidOption('handler', handler, 'it must be a function')

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    // Node joins repeated headers with a comma. That is not a digit, so a request with two terms is invalid.
    const term = parseTerm(String(request.headers[termHeader]))
    if (term === undefined) {
      const rule = `The header "${termHeader}" must appear once, with a whole number from 1 to 2^53 - 1 in plain digits.`
      return refuse(response, 400, 'INVALID_REQUEST', rule)
    }
    try {
      fence.check(term)
      await handler(request, response, term)
    } catch (error) {
      if (isTenureError(error) && error.code === 'STALE_TERM') return refuse(response, 409, error.code, error.message)
      refuse(response, 500, 'WORK_FAILED', 'The request failed.')
      callSafely(() => onError(error, request), warn)
    }
  }

  return (request, response) => void serve(request, response).catch(warn)
}

function refuse(response: ServerResponse, status: number, error: string, message: string): void {
  if (response.writableEnded) return
  // A response that has already started can only be cut off, so that the client does not treat it as a success.
  if (response.headersSent) return void response.destroy()
  // The handler's content headers do not describe this body.
  for (const name of response.getHeaderNames()) if (name.startsWith('content-')) response.removeHeader(name)
  response.statusCode = status
  response.setHeader('content-type', 'application/json; charset=utf-8')
  response.end(JSON.stringify({ ok: false, error, message }))
}

function warn(error: unknown): void {
  process.emitWarning(error instanceof Error ? error : String(error))
}
