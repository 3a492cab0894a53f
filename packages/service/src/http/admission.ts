import type { FastifyRequest } from 'fastify'
import { mayTakePart, nobody, type Identity } from '../auth/access.ts'
import { ServiceError } from '../errors.ts'
import { announcedBytes, isAnnounced, largeBytes } from './bodies.ts'
import { isStillKnown, onceGone, type Connections } from './connections.ts'
import { HeadCheck } from './head.ts'
import { pagePaths } from './routes/page.ts'
import type { App, Service } from './service.ts'

/** Routes without authentication: anyone may check the health of the process, and load the page without its data. */
const openRoutes = new Set<string | undefined>(['/healthz', '/readyz', ...pagePaths])
/** How long the response to a refused large body is delayed. */
const refusedMs = 1_000

type Done = (error?: Error) => void

/**
 * Runs from the first line of a request until its sender is identified. It uses no promises, because there are many
 * renewals.
 */
export function admitRequests(app: App, service: Service, connections: Connections): void {
  const { authenticator, metrics, revocations } = service
  const { clusterId } = service.state
  const head = new HeadCheck(service.allowedHosts)
  const identify = (request: FastifyRequest, done: Done) => {
    // Read first: a reload in the meantime makes the result outdated.
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
      request.identity = nobody
      return done()
    }
    identify(request, (error) => {
      if (error) return refuse(service, request, error, done)
      try {
        const leave = admitBody(service, request)
        if (leave) onceGone(reply, leave)
      } catch (refused) {
        return refuse(service, request, refused as Error, done)
      }
      done()
    })
  })
  // A body may take long to arrive, and the sender may have lost its rights by then.
  const stillKnown = (request: FastifyRequest, done: Done): void => {
    if (request.identity === nobody || isStillKnown(service, request)) return done()
    identify(request, (error) => (error ? done(error) : stillKnown(request, done)))
  }
  app.addHook('preHandler', (request, _reply, done) => stillKnown(request, done))
  app.addHook('onResponse', (request, reply, done) => {
    metrics.request(request.routeOptions.url ?? 'none', reply.statusCode, reply.elapsedTime / 1000)
    done()
  })
}

/** Charges a request and its body. Returns a function that frees the slot of a large body, if it takes one. */
function admitBody({ limits }: Service, request: FastifyRequest): (() => void) | undefined {
  limits.request(request)
  const { takesPart, administers } = request.routeOptions.config
  if (takesPart && !(administers && request.identity.admin)) mayTakePart(request.identity)
  if (isAnnounced(request)) limits.body(request, announcedBytes(request))
  const leave = limits.arriving(request, announcedBytes(request))
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
 * a client that sends the next one at once would otherwise have it read at full network speed.
 */
function refuse({ clock }: Service, request: FastifyRequest, error: Error, done: Done): void {
  if (announcedBytes(request) <= largeBytes) return done(error)
  clock.setTimer(refusedMs, () => done(error), { background: true })
}
