import type { FastifyBaseLogger, FastifyRequest } from 'fastify'
import type { IncomingMessage } from 'node:http'
import { destination, pino, stdTimeFunctions, type DestinationStream, type Logger } from 'pino'
import type { Clock } from 'tenure'
import type { Identity } from './access.ts'
import type { ServiceError } from './errors.ts'
import type { Change } from './feed.ts'
import { textLine } from './logging-text.ts'

/** How much is told, from the most to nothing. */
export type LogLevel = 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal' | 'silent'

/** What may wait for a reader that is slow. Whoever elects leaders does not wait for whoever reads logs. */
const longestBacklogBytes = 4 * 2 ** 20

/**
 * A logger for {@link startService}: lines for people, or JSON. It never shows headers, tokens or metadata.
 *
 * @example
 * const service = await startService({ data: './elections', logger: createLogger({ level: 'info', json: true }) })
 */
export function createLogger(options: {
  readonly level: LogLevel
  readonly json: boolean
  /** Default: standard error. */
  readonly stream?: DestinationStream | undefined
}): Logger {
  const stream = options.stream ?? destination({ fd: 2, sync: false, maxLength: longestBacklogBytes })
  return pino(
    {
      level: options.level,
      base: null,
      timestamp: stdTimeFunctions.isoTime,
      formatters: { level: (level) => ({ level }) },
      // Only what is named here is shown. The usual ones take whatever an error or a request carries along.
      serializers: { err: errorOf, req: requestOf, res: () => undefined },
    },
    options.json ? stream : { write: (line) => stream.write(textLine(line)) },
  )
}

function errorOf(error: unknown): unknown {
  if (!(error instanceof Error)) return String(error)
  const { name, message, stack, cause } = error
  const { code } = error as { code?: unknown }
  return {
    type: name,
    message,
    ...(typeof code === 'string' && { code }),
    stack,
    ...(cause !== undefined && { cause: errorOf(cause) }),
  }
}

function requestOf(request: FastifyRequest): unknown {
  // The query of a URL may hold what somebody should not have put there.
  return { id: request.id, method: request.method, path: request.url?.split('?')[0] }
}

/** Names requests. A name that the sender chose is kept if it can do no harm in a log. */
export function requestNames(newId: () => string): (request: Pick<IncomingMessage, 'headers'>) => string {
  const run = newId().replaceAll('-', '').slice(0, 12)
  let count = 0
  return ({ headers }) => {
    const given = headers['x-request-id']
    if (typeof given === 'string' && /^[\w.-]{1,64}$/.test(given)) return given
    count += 1
    return `${run}-${count.toString(36)}`
  }
}

/** One line for each term that begins and each that ends. Renewals are not told: they are many. */
export function logChanges(logger: Logger): (change: Change) => void {
  return ({ type, groupId: group, lease: { nodeId: node, term, ttlMs }, reason }) => {
    if (type === 'LEADER_CHANGED') logger.info({ group, node, term, ttlMs }, 'elected')
    if (type === 'LEADER_LOST') logger.info({ group, node, term, reason }, 'ended')
  }
}

const windowMs = 10_000
const mostPerWindow = 20

/** What goes wrong with requests. Whoever sends many must not fill the disk with them. */
export class RequestLog {
  readonly #logger: FastifyBaseLogger
  readonly #clock: Pick<Clock, 'monotonicMs'>
  readonly #counts = { error: 0, warn: 0 }
  #untilMs = -Infinity

  constructor(logger: FastifyBaseLogger, clock: Pick<Clock, 'monotonicMs'>) {
    this.#logger = logger
    this.#clock = clock
  }

  /** Failures of the service are errors; who was refused for being nobody, or for asking too much, is a warning. */
  note(request: FastifyRequest, { code, status, message, cause }: ServiceError): void {
    const level = status >= 500 ? 'error' : status === 401 || status === 403 || status === 429 ? 'warn' : undefined
    if (level === undefined) return
    this.#beginWindow()
    this.#counts[level] += 1
    if (this.#counts[level] > mostPerWindow) return
    const { id: request_id, method, ip: from, routeOptions } = request
    // Nobody yet, where that is what was wrong.
    const identity = request.identity as Identity | null
    const subject = identity?.subject
    const known = { request_id, method, route: routeOptions.url, from, ...(subject && { subject }), status, code }
    if (level === 'error') this.#logger.error({ ...known, ...(cause !== undefined && { err: cause }) }, message)
    else this.#logger.warn({ ...known, ...(cause instanceof Error && { reason: cause.message }) }, message)
  }

  #beginWindow(): void {
    const nowMs = this.#clock.monotonicMs()
    if (nowMs < this.#untilMs) return
    this.#untilMs = nowMs + windowMs
    for (const level of ['error', 'warn'] as const) {
      const untold = this.#counts[level] - mostPerWindow
      if (untold > 0) this.#logger[level]({ untold }, 'more of the like was not told')
      this.#counts[level] = 0
    }
  }
}
