import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import fastify, {
  LogController,
  type FastifyBaseLogger,
  type FastifyError,
  type FastifyInstance,
  type FastifyRequest,
} from 'fastify'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Clock } from 'tenure'
import { nobody, validForMs, type Authenticator, type Identity } from './access.ts'
import type { Tls } from './auth/tls.ts'
import { systemClock } from './clock.ts'
import { guardConnections } from './connections.ts'
import { ServiceError } from './errors.ts'
import { answerBroken, Guard, refuseExpectation } from './guard.ts'
import { isQuicklyParsed, isText } from './json.ts'
import type { Limits } from './limits.ts'
import { RequestLog, requestNames } from './logging.ts'
import type { Metrics } from './metrics.ts'
import { describeApi } from './openapi.ts'
import { electionRoutes, renewManyRoute } from './routes/elections.ts'
import { groupRoutes } from './routes/groups.ts'
import { operationRoutes } from './routes/operations.ts'
import { watchRoutes } from './routes/watch.ts'
import type { ElectionState, Policy } from './state.ts'
import type { Streams } from './streams.ts'
import type { Hub } from './hub.ts'

export type App = FastifyInstance<Server, IncomingMessage, ServerResponse, FastifyBaseLogger, TypeBoxTypeProvider>

declare module 'fastify' {
  interface FastifyRequest {
    identity: Identity
    /** The authenticator's, when it found out who asks. */
    generation: number
  }
  interface FastifyContextConfig {
    /** Of a method that a path does not have. */
    isRefused?: boolean
  }
}

/** What the routes work with. */
export interface Service {
  readonly state: ElectionState
  readonly hub: Hub
  readonly clock: Clock
  readonly metrics: Metrics
  readonly authenticator: Authenticator
  /** Bounds of groups that nobody defined. */
  readonly policy: Policy
  readonly streams: Streams
  readonly limits: Limits
  readonly options: {
    readonly bodyLimit: number
    readonly batchBodyLimit: number
    readonly tls: Tls | undefined
    /** Names by which the service may be asked; undefined: every one. */
    readonly allowedHosts: readonly string[] | undefined
  }
  readonly logger: FastifyBaseLogger
}

/** What is told to all: whether the process answers, and whether it can work. */
const openRoutes = new Set<string | undefined>(['/healthz', '/readyz'])

/** The HTTP side of the service. */
export async function buildApp(service: Service): Promise<App> {
  const { options } = service
  const limits = service.limits.options
  const log = new RequestLog(service.logger, service.clock)
  const answer = (error: unknown, request: FastifyRequest, reply: Reply) => answerError(error, request, reply, log)
  const http = {
    maxHeaderSize: 16_384,
    headersTimeout: limits.headersTimeoutMs,
    requestTimeout: limits.requestTimeoutMs,
    // Node looks at its limits of time once in this while only; its default of 30 s would make 10 s to 40 s.
    connectionsCheckingInterval: Math.min(1_000, Math.ceil(limits.headersTimeoutMs / 4)),
    insecureHTTPParser: false,
    // Asked for by the guard, which answers in the shape of all errors.
    requireHostHeader: false,
  }
  const app = fastify({
    loggerInstance: service.logger,
    // One line per request costs more than a renewal; failures are logged where they are answered.
    logController: new LogController({ disableRequestLogging: true }),
    childLoggerFactory: (logger) => logger,
    // Whoever still has a connection gets its answer, and the connection is closed with it.
    return503OnClosing: false,
    bodyLimit: options.bodyLimit,
    requestTimeout: limits.requestTimeoutMs,
    keepAliveTimeout: 75_000,
    connectionTimeout: 0,
    routerOptions: { maxParamLength: 256, ignoreTrailingSlash: false, caseSensitive: true },
    genReqId: requestNames(() => service.clock.randomId()),
    frameworkErrors: (error, request, reply) => void answer(error, request, reply as Reply),
    clientErrorHandler: (error, socket: Socket) => answerBroken(error, socket),
    ajv: { customOptions: { removeAdditional: false, coerceTypes: false, allErrors: false } },
    ...(options.tls && {
      https: {
        ...http,
        ...options.tls,
        handshakeTimeout: limits.headersTimeoutMs,
        requestCert: options.tls.ca !== undefined,
        // Probes have none, and others may show a token; what a certificate is worth is judged by request.
        rejectUnauthorized: false,
      },
    }),
    http,
  }).withTypeProvider<TypeBoxTypeProvider>() as unknown as App
  guardConnections(app.server, limits)
  // Node drops what is above in silence. The guard refuses it, and the size of all headers is bounded anyway.
  app.server.maxHeadersCount = 0
  app.server.on('checkExpectation', refuseExpectation)
  parseJson(app)
  const others = otherMethods(app)
  app.decorateRequest('identity', null as never)
  app.decorateRequest('generation', 0)
  admitRequests(app, service)
  app.setErrorHandler(answer)
  app.setNotFoundHandler(() => {
    throw new ServiceError('NOT_FOUND', 'There is no such route.')
  })
  await describeApi(app, service)
  electionRoutes(app, service)
  renewManyRoute(app, service)
  groupRoutes(app, service)
  watchRoutes(app, service)
  operationRoutes(app, service)
  others.refuse()
  await app.ready()
  return app
}

/** Requests under way on one connection: clients may send the next before they have an answer, but not without end. */
const underWay = Symbol('under way')
const mostUnderWay = 256
type Connection = Socket & { [underWay]?: number }

/** From the first line of a request to the knowledge of who sent it. Without promises: renewals are many. */
function admitRequests(app: App, service: Service): void {
  const { state, authenticator, limits, metrics, options } = service
  const { clusterId } = state
  const guard = new Guard(options.allowedHosts)
  const identify = (request: FastifyRequest, done: (error?: Error) => void) => {
    // Of before: whatever is read again while it is found out makes it outdated.
    const { generation } = authenticator
    const known = (identity: Identity) => {
      request.identity = identity
      request.generation = generation
      done()
    }
    let identity: Identity | Promise<Identity>
    try {
      identity = authenticator.identify(request)
    } catch (error) {
      return done(error as Error)
    }
    if (identity instanceof Promise) identity.then(known, done)
    else known(identity)
  }
  app.addHook('onRequest', (request, reply, done) => {
    const connection: Connection = request.raw.socket
    const count = (connection[underWay] = (connection[underWay] ?? 0) + 1)
    void reply.header('tenure-cluster-id', clusterId)
    try {
      guard.check(request.raw, request.routeOptions.config.isRefused === true)
      if (count > mostUnderWay) throw new ServiceError('RATE_LIMITED', 'Too many requests at once on one connection.')
      // Whoever knows a cluster must not be granted anything by another one that has come to stand at its address.
      const meant = request.headers['tenure-cluster-id']
      if (meant !== undefined && meant !== clusterId) {
        throw new ServiceError('INVALID_REQUEST', 'This service keeps the data of another cluster.')
      }
    } catch (error) {
      // What follows on this connection may be the rest of it.
      void reply.header('connection', 'close')
      return done(error as Error)
    }
    if (openRoutes.has(request.routeOptions.url)) {
      request.identity = nobody
      return done()
    }
    identify(request, (error) => {
      if (error) return done(error)
      try {
        limits.request(request)
      } catch (tooMuch) {
        return done(tooMuch as Error)
      }
      done()
    })
  })
  // A body may take long to arrive, and rights may be gone when it is there.
  const stillKnown = (request: FastifyRequest, done: (error?: Error) => void): void => {
    if (request.identity === nobody || isStillKnown(service, request)) return done()
    identify(request, (error) => (error ? done(error) : stillKnown(request, done)))
  }
  app.addHook('preHandler', (request, _reply, done) => stillKnown(request, done))
  app.addHook('onResponse', (request, reply, done) => {
    const connection: Connection = request.raw.socket
    connection[underWay] = (connection[underWay] ?? 1) - 1
    metrics.request(request.routeOptions.url ?? 'none', reply.statusCode, reply.elapsedTime / 1000)
    done()
  })
}

/** Whether what was found out about who asks still holds. */
export function isStillKnown({ authenticator, clock }: Service, { identity, generation }: FastifyRequest): boolean {
  return generation === authenticator.generation && validForMs(identity, clock.wallMs()) > 0
}

function parseJson(app: App): void {
  const parse = app.getDefaultJsonParser('error', 'error')
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, (request, body: Buffer, done) => {
    if (body.length === 0 && request.method === 'DELETE') return done(null)
    if (!isText(body)) return done(new ServiceError('INVALID_REQUEST', 'The body must be UTF-8.'))
    if (!isQuicklyParsed(body)) return done(new ServiceError('INVALID_REQUEST', 'The body is too deep or too long.'))
    return parse(request, body.toString(), done)
  })
}

const methods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE', 'QUERY']

/** A path that is there answers other methods with those that it has. To be called before the routes are added. */
function otherMethods(app: App): { refuse(): void } {
  const known = new Map<string, string[]>()
  app.addHook('onRoute', ({ url, method }) => {
    known.set(url, [...(known.get(url) ?? []), ...[method].flat()])
  })
  return {
    refuse() {
      for (const [url, had] of known) {
        const allow = had.join(', ')
        app.route({
          url,
          method: methods.filter((method) => !had.includes(method)),
          schema: { hide: true },
          config: { isRefused: true },
          onRequest(_request, reply, done) {
            void reply.header('allow', allow)
            done(new ServiceError('INVALID_REQUEST', `The methods of this path are: ${allow}.`, { status: 405 }))
          },
          handler: () => {},
        })
      }
    },
  }
}

type Reply = Parameters<Parameters<App['setErrorHandler']>[0]>[2]

function answerError(error: unknown, request: FastifyRequest, reply: Reply, log: RequestLog): unknown {
  const known = error instanceof ServiceError ? error : translate(error as FastifyError)
  if (known.status === 401) void reply.header('www-authenticate', 'Bearer')
  log.note(request, known)
  if (known.status === 413) readOn(request, reply)
  const { retry_after_ms: retryAfterMs } = known.details
  if (typeof retryAfterMs === 'number') void reply.header('retry-after', Math.ceil(retryAfterMs / 1000))
  return reply
    .code(known.status)
    .send({ ok: false, error: known.code, message: known.message, ...known.details, request_id: request.id })
}

/** Whoever still sends would lose the answer if the connection were closed at once: the rest is dropped for a moment. */
function readOn({ raw }: FastifyRequest, reply: Reply): void {
  void reply.removeHeader('connection')
  raw.resume()
  systemClock.setTimer(1_000, () => void (raw.complete || raw.destroy()), { background: true })
}

/** What the framework refuses, in our words. */
function translate(error: FastifyError): ServiceError {
  const { code, statusCode = 500, validation } = error
  if (validation) {
    const { additionalProperty: unknown } = validation[0]?.params ?? {}
    const text = typeof unknown === 'string' ? ` ${JSON.stringify(unknown.slice(0, 64))} is not known.` : ''
    return new ServiceError('INVALID_REQUEST', `${error.message}.${text}`)
  }
  if (code === 'FST_ERR_CTP_BODY_TOO_LARGE') return new ServiceError('TOO_LARGE', 'The body is too large.')
  // The framework repeats the path in full.
  if (code === 'FST_ERR_BAD_URL' || code === 'FST_ERR_MAX_PARAM_LENGTH') {
    return new ServiceError('INVALID_REQUEST', 'The path is not valid.')
  }
  if (statusCode >= 400 && statusCode < 500) {
    return new ServiceError('INVALID_REQUEST', error.message, { status: statusCode })
  }
  // Nothing of the inside is shown.
  return new ServiceError('BACKEND_UNAVAILABLE', 'The service failed to answer.', { cause: error })
}
