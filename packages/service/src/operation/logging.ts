import type { FastifyBaseLogger, FastifyRequest } from 'fastify'
import type { IncomingMessage } from 'node:http'
import { pino, stdTimeFunctions, type DestinationStream, type Logger, type LoggerOptions } from 'pino'
import type { Clock } from 'tenure'
import { checkOptions } from 'tenure/internal'
import type { Identity } from '../auth/access.ts'
import type { ServiceError } from '../common/errors.ts'
import type { GroupChange } from '../groups/port.ts'
import { TokenBuckets } from '../common/budgets.ts'
import { errorDescriptor, LogOutput } from './log-output.ts'
import { textLine } from './log-line-text.ts'

/** The log levels, from the most verbose to none. */
export type LogLevel = 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal' | 'silent'

/**
 * Creates a logger for {@link startService}. It writes plain text or JSON, and never logs headers, tokens, or metadata.
 * The service never waits for it: lines that cannot be written to standard error are dropped, counted, and reported
 * later.
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
  checkOptions('createLogger()', options, { level: true, json: true, stream: true })
  const { level, json, stream } = options
  const linesTo = (to: DestinationStream): DestinationStream =>
    json ? to : { write: (line) => to.write(textLine(line)) }
  if (stream) return pino(loggerOptions(level), linesTo(stream))
  const output = new LogOutput(errorDescriptor(), (lost) => {
    let text = ''
    const once = pino(loggerOptions('warn'), linesTo({ write: (line) => void (text = line) }))
    once.warn({ lost }, 'the log could not be written, and some of its lines are lost')
    return text
  })
  const logger = pino(loggerOptions(level), linesTo(output))
  outputs.set(logger, output)
  return logger
}

const outputs = new WeakMap<Logger, LogOutput>()

/** Returns how many lines this logger lost, 0 for a logger that createLogger() did not make. */
export function lostLogLines(logger: Logger): number {
  return outputs.get(logger)?.lost ?? 0
}

function loggerOptions(level: LogLevel): LoggerOptions {
  return {
    level,
    base: null,
    timestamp: stdTimeFunctions.isoTime,
    formatters: { level: (name) => ({ level: name }) },
    // Log only these fields. The default serializers log every property of an error or a request.
    serializers: { err: errorOf, req: requestOf, res: () => undefined },
  }
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
  // The query of a URL may contain secrets.
  return { id: request.id, method: request.method, path: request.url?.split('?')[0] }
}

/**
 * Returns a function that assigns request ids. It keeps a client's own request id if that id is harmless in a log.
 * Other ids are random, because a counter would show every caller how many requests the others send.
 */
export function requestNames(newId: () => string): (request: Pick<IncomingMessage, 'headers'>) => string {
  return ({ headers }) => {
    const given = headers['x-request-id']
    return typeof given === 'string' && /^[\w.-]{1,64}$/.test(given) ? given : newId()
  }
}

const termLines = { perSecond: 20, atOnce: 1_000 }
const allTermLines = { perSecond: 200, atOnce: 10_000 }

/** Logs one line for each term that begins or ends, rate-limited per node and in total. Renewals are not logged. */
export function logChanges(logger: Logger, clock: Pick<Clock, 'monotonicMs'>): (change: GroupChange) => void {
  const each = new TokenBuckets(termLines.perSecond / 1e3, termLines.atOnce)
  const all = new TokenBuckets(allTermLines.perSecond / 1e3, allTermLines.atOnce)
  let untold = 0
  return ({ type, groupId: group, lease: { nodeId: node, term, ttlMs }, reason }) => {
    if (type === 'RENEWED') return
    const nowMs = clock.monotonicMs()
    if (each.take(node, 1, nowMs) > 0 || all.take('', 1, nowMs) > 0) {
      untold += 1
      return
    }
    if (untold > 0) logger.warn({ untold }, 'some terms were not logged, because terms begin and end too often')
    untold = 0
    if (type === 'LEADER_CHANGED') logger.info({ group, node, term, ttlMs }, 'elected')
    if (type === 'LEADER_LOST') logger.info({ group, node, term, reason }, 'ended')
  }
}

const windowMs = 10_000
const maxPerWindow = 20

/** Logs failed requests, rate-limited, so that a client that sends many of them cannot fill the disk. */
export class RequestLog {
  readonly #logger: FastifyBaseLogger
  readonly #clock: Pick<Clock, 'monotonicMs'>
  readonly #counts = { error: 0, warn: 0 }
  #untilMs = -Infinity

  constructor(logger: FastifyBaseLogger, clock: Pick<Clock, 'monotonicMs'>) {
    this.#logger = logger
    this.#clock = clock
  }

  /** Logs failures of the service as errors, and rejections for lack of identity, rights, or budget as warnings. */
  note(request: FastifyRequest, { code, status, message, cause }: ServiceError): void {
    const level = status >= 500 ? 'error' : status === 401 || status === 403 || status === 429 ? 'warn' : undefined
    if (level === undefined) return
    this.#beginWindow()
    this.#counts[level] += 1
    if (this.#counts[level] > maxPerWindow) return
    const { id: request_id, method, ip: from, routeOptions } = request
    // Null if the caller was not identified.
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
      const untold = this.#counts[level] - maxPerWindow
      if (untold > 0) this.#logger[level]({ untold }, 'more of these were not logged')
      this.#counts[level] = 0
    }
  }
}
