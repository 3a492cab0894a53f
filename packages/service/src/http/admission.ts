import type { FastifyRequest } from 'fastify'
import { checkMayTakePart, unauthenticated, type Identity } from '../auth/access.ts'
import { ServiceError } from '../common/errors.ts'
import { announcedBytes, isAnnounced, largeBytes } from './request-bodies.ts'
import { isIdentityValid, onResponseClosed, type HttpConnections } from './connections.ts'
import { HeadCheck } from './request-head.ts'
import { pagePaths } from './routes/page.ts'
import type { App, Service } from './service.ts'

/** Routes without authentication. Anyone may check the health of the process, and load the page without its data. */
const openRoutes = new Set<string | undefined>(['/healthz', '/readyz', ...pagePaths])
/** How long the response to a refused large body is delayed. */
const refusedMs = 1_000

type HookCallback = (error?: Error) => void

/**
 * Runs from the first line of a request until its sender is identified. This code avoids promises, because it runs for
 * every renewal.
 */
export function admitRequests(app: App, service: Service, connections: HttpConnections): void {
  const { authenticator, metrics, revocations } = service
  const { clusterId } = service.state
  const head = new HeadCheck(service.allowedHosts)
  const identify = (request: FastifyRequest, done: HookCallback) => {
    // Read the generation first, so that a reload in the meantime makes the identity outdated.
    const { generation } = authenticator
    const known = (identity: Identity) => {
      request.identity = identity
      request.generation = generation
      connections.identify(request.raw.socket)
      done()
    }
    const unlessRevoked = (found: Identity) => {
      const checked = revocations.check(found)
      return checked ? checked.then(() => found) : found
    }
    let identity: Identity | Promise<Identity>
    try {
      const found = authenticator.identify(request)
      identity = found instanceof Promise ? found.then(unlessRevoked) : unlessRevoked(found)
    } catch (error) {
      return done(error as Error)
    }
    if (identity instanceof Promise) identity.then(known, done)
    else known(identity)
  }
  app.addHook('onRequest', (request, reply, done) => {
    // The routes of the page override the second header, because its files may be cached.
    void reply.headers({ 'tenure-cluster-id': clusterId, 'cache-control': 'no-store' })
    try {
      head.check(request.raw, request.routeOptions.config.isRefused === true)
      // A client of one cluster must not get a grant from another cluster that now has the same address.
      const meant = request.headers['tenure-cluster-id']
      if (meant !== undefined && meant !== clusterId) {
        throw new ServiceError('INVALID_REQUEST', 'This service has the data of another cluster. Check the address.')
      }
    } catch (error) {
      // The next bytes on this connection may be the rest of this request.
      void reply.header('connection', 'close')
      return done(error as Error)
    }
    if (openRoutes.has(request.routeOptions.url)) {
      request.identity = unauthenticated
      return done()
    }
    identify(request, (error) => {
      if (error) return refuse(service, request, error, done)
      try {
        const leave = admitBody(service, request)
        if (leave) onResponseClosed(reply, leave)
      } catch (refused) {
        return refuse(service, request, refused as Error, done)
      }
      done()
    })
  })
  // A body may take a long time to arrive, and the sender may have lost its rights by then.
  const stillKnown = (request: FastifyRequest, done: HookCallback): void => {
    if (request.identity === unauthenticated || isIdentityValid(service, request)) return done()
    identify(request, (error) => (error ? done(error) : stillKnown(request, done)))
  }
  app.addHook('preHandler', (request, _reply, done) => stillKnown(request, done))
  app.addHook('onResponse', (request, reply, done) => {
    metrics.request(request.routeOptions.url ?? 'none', reply.statusCode, reply.elapsedTime / 1000)
    done()
  })
}

/** Charges a request and its body. If the body is large, returns a function that frees its slot. */
function admitBody({ limits }: Service, request: FastifyRequest): (() => void) | undefined {
  limits.request(request)
  const { takesPart, administers } = request.routeOptions.config
  if (takesPart && !(administers && request.identity.admin)) checkMayTakePart(request.identity)
  if (isAnnounced(request)) limits.body(request, announcedBytes(request))
  const leave = limits.reserveBody(request, announcedBytes(request))
  return (
    leave &&
    (() => {
      leave()
      request.leaveTurn?.()
    })
  )
}

/**
 * Delays the response to a large body that is refused. The rest of the body is read and dropped after the response, so
 * without the delay a client could send bodies at full network speed.
 */
function refuse({ clock }: Service, request: FastifyRequest, error: Error, done: HookCallback): void {
  if (announcedBytes(request) <= largeBytes) return done(error)
  clock.setTimer(refusedMs, () => done(error), { background: true })
}
