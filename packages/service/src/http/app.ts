import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import fastify, { LogController, type FastifyRequest } from 'fastify'
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { Server as TlsServer } from 'node:tls'
import { openAccess } from '../auth/access.ts'
import { ServiceError } from '../common/errors.ts'
import { anonymous } from '../common/fair-queue.ts'
import { RequestLog, requestNames } from '../operation/logging.ts'
import { admitRequests } from './admission.ts'
import { bodyBytes, parseBodies } from './request-bodies.ts'
import { HttpConnections } from './connections.ts'
import { answerMalformed, answerError, refuseExpectation, type Reply } from './error-responses.ts'
import { describeApi } from './openapi.ts'
import { RequestGate } from './request-gate.ts'
import { electionRoutes } from './routes/elections.ts'
import { groupRoutes } from './routes/groups.ts'
import { operationRoutes } from './routes/operations.ts'
import { pageRoute } from './routes/page.ts'
import { renewManyRoute } from './routes/renew-many.ts'
import { watchRoutes } from './routes/watch.ts'
import type { App, Service } from './service.ts'

/** In the order of the OpenAPI document. */
const routes = [...electionRoutes, renewManyRoute, ...groupRoutes, ...watchRoutes, ...operationRoutes, pageRoute]

/** Builds the HTTP server of the service. */
export async function buildApp(service: Service): Promise<{ app: App; connections: HttpConnections }> {
  const app = createServer(service)
  guardRequests(app, service)
  const connections = new HttpConnections(app.server, service.limits.options, service.clock)
  // Node silently drops headers above this limit. The head check rejects such a request, and the total size of headers
  // is limited anyway.
  app.server.maxHeadersCount = 0
  app.server.on('checkExpectation', refuseExpectation)
  parseBodies(app, service.limits)
  const refuseOtherMethods = otherMethods(app)
  app.decorateRequest('identity', null as never)
  app.decorateRequest('generation', 0)
  app.decorateRequest('leaveTurn')
  app.decorateRequest('bodyBytes', 0)
  admitRequests(app, service, connections)
  app.setNotFoundHandler(() => {
    throw new ServiceError('NOT_FOUND', 'This route does not exist.')
  })
  await describeApi(app, service)
  for (const addRoute of routes) addRoute(app, service)
  refuseOtherMethods()
  await app.ready()
  return { app, connections }
}

function createServer({ limits: { options: limits }, clock, logger, tls }: Service): App {
  const log = new RequestLog(logger, clock)
  const answer = (error: unknown, request: FastifyRequest, reply: Reply) => answerError(error, request, reply, log)
  const http = {
    maxHeaderSize: 16_384,
    headersTimeout: limits.headersTimeoutMs,
    requestTimeout: limits.requestTimeoutMs,
    // Node checks its timeouts only this often. Its default of 30 s would turn 10 s into up to 40 s.
    connectionsCheckingInterval: Math.min(1_000, Math.ceil(limits.headersTimeoutMs / 4)),
    insecureHTTPParser: false,
    // The head check requires the Host header, and answers with the service's own error response.
    requireHostHeader: false,
  }
  const app = fastify({
    loggerInstance: logger,
    // Logging a line for each request would cost more than a renewal. Failures are logged where they are answered.
    logController: new LogController({ disableRequestLogging: true }),
    childLoggerFactory: (parent) => parent,
    // A client that still has a connection gets its response, and then the connection is closed.
    return503OnClosing: false,
    bodyLimit: bodyBytes,
    requestTimeout: limits.requestTimeoutMs,
    keepAliveTimeout: 75_000,
    connectionTimeout: 0,
    routerOptions: { maxParamLength: 256, ignoreTrailingSlash: false, caseSensitive: true },
    genReqId: requestNames(() => clock.randomId()),
    frameworkErrors: (error, request, reply) => void answer(error, request, reply as Reply),
    clientErrorHandler: (error, socket: Socket) => answerMalformed(error, socket),
    ajv: { customOptions: { removeAdditional: false, coerceTypes: false, allErrors: false } },
    ...(tls && {
      https: {
        ...http,
        ...tls,
        handshakeTimeout: limits.headersTimeoutMs,
        requestCert: tls.ca !== undefined,
        // Probes have no certificate, and other clients may use a token. The rights of a certificate are checked for
        // each request.
        rejectUnauthorized: false,
      },
    }),
    http,
  }).withTypeProvider<TypeBoxTypeProvider>() as unknown as App
  return app.setErrorHandler(answer)
}

/** Sends each request through the gate before the framework sees it. */
function guardRequests({ server }: App, { authenticator, fairQueue }: Service): void {
  const [handle] = server.listeners('request') as Parameters<RequestGate['guard']>
  if (!handle) throw new TypeError('the server has no handler')
  server.removeAllListeners('request')
  // Without authentication, connections take turns, because all callers on one machine have the same address.
  const laneOf = (request: IncomingMessage) =>
    authenticator === openAccess ? request.socket : (authenticator.recall(request) ?? anonymous)
  const gate = new RequestGate(fairQueue, laneOf)
  server.on('request', gate.guard(handle))
  server.on(server instanceof TlsServer ? 'secureConnection' : 'connection', (socket: Socket) => gate.meet(socket))
}

const methods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE', 'QUERY']

/**
 * Makes existing paths answer unsupported methods with the list of supported ones. Call it before the routes are added,
 * and call the returned function afterwards.
 */
function otherMethods(app: App): () => void {
  const known = new Map<string, string[]>()
  app.addHook('onRoute', ({ url, method }) => {
    known.set(url, [...(known.get(url) ?? []), ...[method].flat()])
  })
  return () => {
    for (const [url, had] of known) {
      const allow = had.join(', ')
      app.route({
        url,
        method: methods.filter((method) => !had.includes(method)),
        schema: { hide: true },
        config: { isRefused: true },
        onRequest(_request, reply, done) {
          void reply.header('allow', allow)
          done(new ServiceError('INVALID_REQUEST', `This path only supports: ${allow}.`, { status: 405 }))
        },
        handler: () => {},
      })
    }
  }
}
