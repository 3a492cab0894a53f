import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import swagger from '@fastify/swagger'
import fastify, {
  LogController,
  type FastifyBaseLogger,
  type FastifyError,
  type FastifyInstance,
  type FastifyRequest,
} from 'fastify'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Clock } from 'tenure'
import { nobody, type Authenticator, type Identity } from './access.ts'
import type { Tls } from './auth/tls.ts'
import { ServiceError } from './errors.ts'
import type { Metrics } from './metrics.ts'
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
  readonly options: {
    readonly bodyLimit: number
    readonly batchBodyLimit: number
    readonly maxConnections: number
    readonly tls: Tls | undefined
  }
  readonly logger: FastifyBaseLogger
}

/** What is told to all: whether the process answers, and whether it can work. */
const openRoutes = new Set<string | undefined>(['/healthz', '/readyz'])

/** The HTTP side of the service. */
export async function buildApp(service: Service): Promise<App> {
  const { options } = service
  const http = { maxHeaderSize: 16_384, headersTimeout: 10_000, requireHostHeader: true }
  const app = fastify({
    loggerInstance: service.logger,
    // One line per request costs more than a renewal; failures are logged where they are answered.
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: options.bodyLimit,
    requestTimeout: 30_000,
    keepAliveTimeout: 75_000,
    connectionTimeout: 0,
    routerOptions: { maxParamLength: 256, ignoreTrailingSlash: false, caseSensitive: true },
    genReqId: () => service.clock.randomId(),
    ajv: { customOptions: { removeAdditional: false, coerceTypes: false, allErrors: false } },
    ...(options.tls && {
      https: {
        ...http,
        ...options.tls,
        handshakeTimeout: 10_000,
        requestCert: options.tls.ca !== undefined,
        // Probes have none, and others may show a token; what a certificate is worth is judged by request.
        rejectUnauthorized: false,
      },
    }),
    http,
  }).withTypeProvider<TypeBoxTypeProvider>() as unknown as App
  app.server.maxConnections = options.maxConnections
  app.server.maxHeadersCount = 100
  app.decorateRequest('identity', null as never)
  const { clusterId } = service.state
  app.addHook('onRequest', async (request, reply) => {
    void reply.header('tenure-cluster-id', clusterId)
    // Whoever knows a cluster must not be granted anything by another one that has come to stand at its address.
    const meant = request.headers['tenure-cluster-id']
    if (meant !== undefined && meant !== clusterId) {
      throw new ServiceError('INVALID_REQUEST', 'This service keeps the data of another cluster.')
    }
    const isOpen = openRoutes.has(request.routeOptions.url)
    request.identity = isOpen ? nobody : await service.authenticator.identify(request)
  })
  app.addHook('onResponse', async (request, reply) => {
    const route = request.routeOptions.url ?? 'none'
    service.metrics.request(route, reply.statusCode, reply.elapsedTime / 1000)
  })
  app.setErrorHandler((error, request, reply) => answerError(error, request, reply))
  app.setNotFoundHandler((request) => {
    throw new ServiceError('NOT_FOUND', `There is no ${request.method} ${request.url.split('?')[0]}.`)
  })
  await app.register(swagger, {
    openapi: {
      info: { title: 'Tenure election service', version: '1' },
      servers: [{ url: '/' }],
    },
  })
  electionRoutes(app, service)
  renewManyRoute(app, service)
  groupRoutes(app, service)
  watchRoutes(app, service)
  operationRoutes(app, service)
  await app.ready()
  return app
}

type Reply = Parameters<Parameters<App['setErrorHandler']>[0]>[2]

function answerError(error: unknown, request: FastifyRequest, reply: Reply): unknown {
  const known = error instanceof ServiceError ? error : translate(error as FastifyError)
  if (known.status === 401) void reply.header('www-authenticate', 'Bearer')
  if (known.status >= 500) request.log.error({ err: error, code: known.code }, known.message)
  const { retry_after_ms: retryAfterMs } = known.details
  if (typeof retryAfterMs === 'number') void reply.header('retry-after', Math.ceil(retryAfterMs / 1000))
  return reply
    .code(known.status)
    .send({ ok: false, error: known.code, message: known.message, ...known.details, request_id: request.id })
}

/** What the framework refuses, in our words. */
function translate(error: FastifyError): ServiceError {
  const { code, statusCode = 500, validation } = error
  if (validation) return new ServiceError('INVALID_REQUEST', `${error.message}.`)
  if (code === 'FST_ERR_CTP_BODY_TOO_LARGE') return new ServiceError('TOO_LARGE', 'The body is too large.')
  if (statusCode >= 400 && statusCode < 500) {
    return new ServiceError('INVALID_REQUEST', error.message, { status: statusCode })
  }
  // Nothing of the inside is shown.
  return new ServiceError('BACKEND_UNAVAILABLE', 'The service failed to answer.', { cause: error })
}
