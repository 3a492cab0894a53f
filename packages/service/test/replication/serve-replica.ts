import { pino } from 'pino'
import { openAccess } from '../../src/auth/access.ts'
import { Revocations } from '../../src/auth/revocations.ts'
import { systemClock } from '../../src/common/clock.ts'
import { FairQueue } from '../../src/common/fair-queue.ts'
import { buildApp } from '../../src/http/app.ts'
import { limitsFrom } from '../../src/http/limit-options.ts'
import { Limits } from '../../src/http/limits.ts'
import type { Service } from '../../src/http/service.ts'
import { Metrics } from '../../src/operation/metrics.ts'
import { Readiness } from '../../src/operation/readiness.ts'
import { WatchPresence } from '../../src/watch/presence.ts'
import { OpenResponses } from '../../src/http/watch/open-responses.ts'
import { policy } from './test-cluster.ts'

/** Serves groups over HTTP on a free port. */
export async function serveGroups({
  state,
  hub,
  secret,
  replicas,
}: Pick<Service, 'state' | 'hub' | 'secret' | 'replicas'>) {
  const clock = systemClock
  const limits = new Limits(limitsFrom({}, false), { clock, authenticated: false })
  const readiness = new Readiness(state, clock)
  const streams = new OpenResponses(clock)
  const metrics = new Metrics({
    version: '0.0.0',
    minTtlMs: policy.minTtlMs,
    groups: () => 0,
    groupBytes: () => 0,
    maxGroupBytes: 0,
    stalledMs: () => 0,
    watchers: () => hub.watchers,
    waiting: () => limits.waitingCount,
    storeHealthy: () => readiness.isHealthy(),
    replicas: () => replicas.ownView(),
    lostLogLines: () => 0,
  })
  const logger = pino({ level: 'silent' })
  const { app, connections } = await buildApp({
    state,
    hub,
    secret,
    clock,
    limits,
    fairQueue: new FairQueue(),
    readiness,
    replicas,
    storageHealth: new Readiness(replicas, clock),
    openResponses: streams,
    presence: new WatchPresence(state, clock),
    metrics,
    logger,
    policy,
    authenticator: openAccess,
    revocations: new Revocations({ state, replicas, clock, onRevoked: () => {} }),
    tls: undefined,
    allowedHosts: undefined,
  })
  const url = await app.listen({ host: '127.0.0.1', port: 0 })
  return {
    url,
    async close() {
      const closed = app.close()
      streams.endAll()
      await connections.drain(closed, 1_000)
    },
  }
}
