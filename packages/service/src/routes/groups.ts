/** Groups, their policies and their members. */
import { canRead, mayAct, mayAdminister, mayRead } from '../access.ts'
import { Type, type Static } from '@sinclair/typebox'
import { Seal } from '../auth/seal.ts'
import { checkMetadata, checkNodeId } from '../checks.ts'
import { ServiceError } from '../errors.ts'
import * as schema from '../schemas.ts'
import type { App, Service } from '../service.ts'
import type { Definition, GroupView, Policy } from '../state.ts'
import { leaderOf } from '../views.ts'

export function groupRoutes(app: App, service: Service): void {
  const { state, clock } = service
  const seal = new Seal()

  app.post(
    '/v1/groups',
    {
      schema: {
        operationId: 'createGroup',
        summary: 'Define a group.',
        body: schema.CreateGroupBody,
        response: {
          200: schema.GroupAnswer,
          201: schema.GroupAnswer,
          ...schema.failures(400, 401, 403, 409, 413, 415, 429, 503),
        },
      },
    },
    async (request, reply) => {
      const { group_id: groupId, ...definition } = request.body
      mayAdminister(request.identity)
      const done = await state.define(groupId, definitionOf(definition, service.policy), { replace: false })
      return reply
        .code(done === 'created' ? 201 : 200)
        .send({ ok: true, group: viewOf(await state.group(groupId), clock.wallMs()) })
    },
  )

  app.get(
    '/v1/groups',
    {
      schema: {
        operationId: 'listGroups',
        summary: 'All groups, in pages.',
        querystring: Type.Object(
          {
            after: Type.Optional(Type.String({ maxLength: 256, description: 'next of the page before.' })),
            limit: Type.Optional(
              Type.String({ pattern: '^[1-9][0-9]{0,2}$', description: 'At most 999. Default: 100.' }),
            ),
          },
          { additionalProperties: false },
        ),
        response: { 200: schema.GroupsAnswer, ...schema.failures(400, 401, 403, 429, 503) },
      },
    },
    async (request) => {
      const { limit = '100' } = request.query
      const after = request.query.after === undefined ? undefined : seal.open(request.query.after)
      if (request.query.after !== undefined && after === undefined) {
        throw new ServiceError('INVALID_REQUEST', 'after was not given out by this service since it started.')
      }
      const { groups, more } = await state.groups({ after, limit: Number(limit) })
      const isVisible = ({ groupId }: GroupView) => canRead(request.identity, groupId)
      const last = more ? groups.at(-1) : undefined
      return {
        groups: groups.filter(isVisible).map((group) => viewOf(group, clock.wallMs())),
        // A page can end at a group that is not shown, and its name must not be shown either.
        next: last ? (isVisible(last) ? last.groupId : seal.close(last.groupId)) : null,
      }
    },
  )

  app.get(
    '/v1/groups/:group_id',
    {
      schema: {
        operationId: 'getGroup',
        summary: 'A group, its policy and its leader.',
        params: schema.GroupParams,
        response: { 200: schema.GroupAnswer, ...schema.failures(400, 401, 403, 404, 429, 503) },
      },
    },
    async (request) => {
      mayRead(request.identity, request.params.group_id)
      return { ok: true as const, group: viewOf(await state.group(request.params.group_id), clock.wallMs()) }
    },
  )

  app.put(
    '/v1/groups/:group_id',
    {
      schema: {
        operationId: 'putGroup',
        summary: 'Define a group, or change its policy for new leases.',
        params: schema.GroupParams,
        body: schema.PutGroupBody,
        response: {
          200: schema.GroupAnswer,
          201: schema.GroupAnswer,
          ...schema.failures(400, 401, 403, 413, 415, 429, 503),
        },
      },
    },
    async (request, reply) => {
      const { group_id: groupId } = request.params
      mayAdminister(request.identity)
      const done = await state.define(groupId, definitionOf(request.body, service.policy), { replace: true })
      return reply
        .code(done === 'created' ? 201 : 200)
        .send({ ok: true, group: viewOf(await state.group(groupId), clock.wallMs()) })
    },
  )

  app.delete(
    '/v1/groups/:group_id',
    {
      schema: {
        operationId: 'deleteGroup',
        summary: 'Delete a group that has no leader. Its terms go on if it comes back.',
        params: schema.GroupParams,
        querystring: Type.Object(
          { force: Type.Optional(Type.Union([Type.Literal('true'), Type.Literal('false')])) },
          { additionalProperties: false },
        ),
        response: { 200: schema.Ok, ...schema.failures(400, 401, 403, 404, 409, 429, 503) },
      },
    },
    async (request) => {
      const { group_id: groupId } = request.params
      mayAdminister(request.identity)
      await state.remove(groupId, { force: request.query.force === 'true' })
      return { ok: true as const }
    },
  )

  app.post(
    '/v1/groups/:group_id/heartbeat',
    {
      schema: {
        operationId: 'heartbeat',
        summary: 'Show up as a member without a campaign.',
        params: schema.GroupParams,
        body: schema.HeartbeatBody,
        response: { 200: schema.Ok, ...schema.failures(400, 401, 403, 404, 413, 415, 429) },
      },
    },
    async (request) => {
      const { group_id: groupId } = request.params
      const { node_id: nodeId, metadata = {} } = request.body
      mayAct(request.identity, groupId, nodeId)
      checkNodeId(nodeId)
      checkMetadata(metadata)
      state.heartbeat(groupId, nodeId, metadata)
      return { ok: true as const }
    },
  )

  app.get(
    '/v1/groups/:group_id/members',
    {
      schema: {
        operationId: 'listMembers',
        summary: 'Who takes part, and when it was last heard of.',
        params: schema.GroupParams,
        response: { 200: schema.MembersAnswer, ...schema.failures(400, 401, 403, 404, 429) },
      },
    },
    async (request) => {
      mayRead(request.identity, request.params.group_id)
      const members = state.members(request.params.group_id).map((member) => ({
        node_id: member.nodeId,
        role: member.role,
        last_heartbeat_ms: member.lastHeartbeatMs ?? null,
        metadata: member.metadata,
      }))
      return { members }
    },
  )
}

function definitionOf(body: Static<typeof schema.PutGroupBody>, fallback: Policy): Definition {
  const policy = {
    minTtlMs: body.policy?.min_ttl_ms ?? fallback.minTtlMs,
    maxTtlMs: body.policy?.max_ttl_ms ?? fallback.maxTtlMs,
  }
  if (policy.minTtlMs > policy.maxTtlMs) {
    throw new ServiceError(
      'INVALID_REQUEST',
      `min_ttl_ms (${policy.minTtlMs}) is above max_ttl_ms (${policy.maxTtlMs}).`,
    )
  }
  for (const nodeId of body.allowed_nodes ?? []) checkNodeId(nodeId)
  const allowedNodes = body.allowed_nodes && [...new Set(body.allowed_nodes)].sort()
  return { policy, allowedNodes }
}

function viewOf(group: GroupView, wallMs: number) {
  const { policy, allowedNodes } = group.definition
  const { lease } = group
  return {
    group_id: group.groupId,
    policy: { min_ttl_ms: policy.minTtlMs, max_ttl_ms: policy.maxTtlMs },
    allowed_nodes: allowedNodes ? [...allowedNodes] : null,
    explicit: group.explicit,
    highest_term: group.highestTerm,
    leader: lease && !lease.ended ? leaderOf(lease, wallMs) : null,
  }
}
