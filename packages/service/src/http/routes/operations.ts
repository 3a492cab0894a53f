/** Routes for operators: health, readiness, metrics, replicas, tokens. */
import { Type } from '@sinclair/typebox'
import { checkAdmin, checkMayReadAll } from '../../auth/access.ts'
import type { ActiveView, FollowerView } from '../../replication/replica-views.ts'
import { Ok } from '../../schemas/common.ts'
import { bodyFailures } from '../../schemas/failures.ts'
import { IdentityAnswer, ReplicasAnswer, RevokeBody } from '../../schemas/operations.ts'
import type { App, Service } from '../service.ts'

function healthRoute(app: App): void {
  app.get(
    '/healthz',
    {
      schema: {
        operationId: 'healthz',
        tags: ['operation'],
        summary: 'Liveness check',
        description: 'Succeeds if the process answers.',
        security: [],
        response: { 200: Ok },
      },
    },
    async () => ({ ok: true as const }),
  )
}

function readyRoute(app: App, { readiness }: Service): void {
  app.get(
    '/readyz',
    {
      schema: {
        operationId: 'readyz',
        tags: ['operation'],
        summary: 'Readiness check',
        description:
          'Succeeds if the service owns its data and grants can be made durable, and a replica has read the groups. Checked at most once a second.',
        security: [],
        response: { 200: Ok },
      },
    },
    async () => {
      await readiness.check()
      return { ok: true as const }
    },
  )
}

function metricsRoute(app: App, { metrics }: Service): void {
  app.get(
    '/metrics',
    {
      schema: {
        operationId: 'metrics',
        tags: ['operation'],
        summary: 'Metrics for Prometheus',
        description:
          'In the Prometheus text format. Labels only take a few fixed values, and the groups that the operator named.',
        response: {
          200: { description: 'The metrics.', content: { 'text/plain': { schema: Type.String() } } },
        },
      },
    },
    async (request, reply) => {
      checkMayReadAll(request.identity)
      void reply.type('text/plain; version=0.0.4; charset=utf-8')
      return metrics.text()
    },
  )
}

function documentRoute(app: App, { limits }: Service): void {
  /** The document is the same for all callers while the service runs. */
  let bytes: Buffer | undefined
  app.get(
    '/openapi.json',
    {
      schema: {
        operationId: 'openapi',
        tags: ['operation'],
        summary: 'This document',
        description: 'The OpenAPI document of this service.',
        response: {
          200: Type.Unsafe<object>({ type: 'object', additionalProperties: true, description: 'The document.' }),
        },
      },
    },
    async (request, reply) => {
      bytes ??= Buffer.from(JSON.stringify(app.swagger()))
      limits.chargeResponse(request, bytes.length)
      return reply.type('application/json; charset=utf-8').send(bytes)
    },
  )
}

function replicasRoute(app: App, { state, replicas, storageHealth }: Service): void {
  app.get(
    '/v1/replicas',
    {
      schema: {
        operationId: 'replicas',
        tags: ['operation'],
        summary: 'The replicas of this service',
        description:
          'Which replica is active, since when, which others are connected to it, and whether the storage answers. Any replica can answer this, even while none is active.',
        response: { 200: ReplicasAnswer },
      },
    },
    async (request) => {
      checkMayReadAll(request.identity)
      const [{ active, followers }, healthy] = await Promise.all([replicas.view(), storageHealth.isHealthy()])
      return {
        cluster_id: state.clusterId,
        answered_by: replicas.name,
        storage: { kind: replicas.storage, healthy },
        active: active?.replica ?? null,
        term: active?.term ?? null,
        replicas: [...(active ? [activeView(active)] : []), ...followers.map(followerView)],
      }
    },
  )
}

function revokeRoute(app: App, { revocations, logger }: Service): void {
  app.post(
    '/v1/tokens/revoke',
    {
      schema: {
        operationId: 'revokeToken',
        tags: ['operation'],
        summary: 'Revoke a token',
        description:
          'Revokes a token permanently, by its id (`jti`). Once this request succeeds, no connected replica accepts the token, and the streams, polls, and waiting campaigns of its bearer have ended. The leases of its bearer expire. May be repeated.',
        body: RevokeBody,
        response: { 200: Ok },
      },
      config: { failures: bodyFailures },
    },
    async (request) => {
      checkAdmin(request.identity)
      const { token_id } = request.body
      await revocations.revoke(token_id)
      logger.warn({ token_id, by: request.identity.subject }, 'a token was revoked')
      return { ok: true as const }
    },
  )
}

function activeView({ replica, address, sinceMs }: ActiveView) {
  return {
    replica,
    role: 'active' as const,
    address: address ?? null,
    since_ms: sinceMs ?? null,
    changes_behind: 0,
    feed_lag_ms: 0,
  }
}

function followerView({ replica, address, sinceMs, changesBehind, lagMs }: FollowerView) {
  return {
    replica,
    role: 'follower' as const,
    address,
    since_ms: sinceMs ?? null,
    changes_behind: changesBehind ?? null,
    feed_lag_ms: lagMs ?? null,
  }
}

function identityRoute(app: App): void {
  app.get(
    '/v1/identity',
    {
      schema: {
        operationId: 'identity',
        tags: ['operation'],
        summary: 'The identity of the caller',
        description:
          'The name of the caller, and what it may do besides taking part in groups. Without authentication, every caller may do everything.',
        response: { 200: IdentityAnswer },
      },
    },
    async ({ identity: { subject, admin, reader, expiresAtMs } }) => ({
      subject,
      admin,
      reader,
      expires_at_ms: expiresAtMs ?? null,
    }),
  )
}

export const operationRoutes = [
  healthRoute,
  readyRoute,
  identityRoute,
  replicasRoute,
  revokeRoute,
  metricsRoute,
  documentRoute,
]
