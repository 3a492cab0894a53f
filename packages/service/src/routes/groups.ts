/** Groups, their policies and their members. */
import { canRead, mayAct, mayAdminister, mayRead } from '../access.ts'
import type { Static } from '@sinclair/typebox'
import { Seal } from '../auth/seal.ts'
import { checkMetadata, checkNodeId } from '../checks.ts'
import { ServiceError } from '../errors.ts'
import * as schema from '../schemas.ts'
import type { App, Service } from '../service.ts'
import type { Definition, GroupView, Policy } from '../state.ts'
import { leaderOf } from '../views.ts'

const tags = ['groups']

export function groupRoutes(app: App, service: Service): void {
  const { state, clock } = service
  const seal = new Seal()

  app.post(
    '/v1/groups',
    {
      schema: {
        operationId: 'createGroup',
        tags,
        summary: 'Define a group',
        description: 'The same definition again is answered with 200, another one with CONFLICT.',
        body: schema.CreateGroupBody,
        response: { 200: schema.GroupAnswer, 201: schema.GroupAnswer },
      },
      config: { failures: [409, ...schema.bodyFailures] },
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
        tags,
        summary: 'All groups',
        description: 'In pages, by id.',
        querystring: schema.GroupsQuery,
        response: { 200: schema.GroupsAnswer },
      },
    },
    async (request) => {
      const { limit = '100' } = request.query
      const { identity } = request
      service.limits.groups(request, Number(limit))
      const after = request.query.after === undefined ? undefined : seal.open(request.query.after)
      if (request.query.after !== undefined && after === undefined) {
        throw new ServiceError('INVALID_REQUEST', 'after was not given out by this service since it started.')
      }
      // Whoever chose any place to begin at could find out what lies behind it.
      if (after !== undefined && after === request.query.after) mayRead(identity, after)
      const isShown = (groupId: string) => canRead(identity, groupId)
      const { groups, next, passedOver } = await state.groups({ after, limit: Number(limit), isShown })
      service.limits.passedOver(request, passedOver)
      const seesAll = identity.reader || identity.admin
      return {
        groups: groups.map((group) => viewOf(group, clock.wallMs())),
        // A page can end at a group that is not shown, and its name must not be shown either.
        next: next === undefined ? null : seesAll ? next : seal.close(next),
      }
    },
  )

  app.get(
    '/v1/groups/:group_id',
    {
      schema: {
        operationId: 'getGroup',
        tags,
        summary: 'A group',
        description: 'Its policy and its leader.',
        params: schema.GroupParams,
        response: { 200: schema.GroupAnswer },
      },
      config: { failures: [404] },
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
        tags,
        summary: 'Define or change a group',
        description:
          'The bounds hold for campaigns and renewals from then on. Who leads keeps its lease and renews it, also if it is not allowed any more.',
        params: schema.GroupParams,
        body: schema.PutGroupBody,
        response: { 200: schema.GroupAnswer, 201: schema.GroupAnswer },
      },
      config: { failures: [404, ...schema.bodyFailures] },
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
        tags,
        summary: 'Delete a group',
        description: 'One that has no leader. Its terms go on if it comes back.',
        params: schema.GroupParams,
        querystring: schema.DeleteQuery,
        response: { 200: schema.Ok },
      },
      config: { failures: [404, 409] },
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
        tags,
        summary: 'Send a heartbeat',
        description: 'Shows up as a member without a campaign.',
        params: schema.GroupParams,
        body: schema.HeartbeatBody,
        response: { 200: schema.Ok },
      },
      config: { failures: [404, ...schema.bodyFailures] },
    },
    async (request) => {
      const { group_id: groupId } = request.params
      const { node_id: nodeId, metadata = {} } = request.body
      mayAct(request.identity, groupId, nodeId)
      checkNodeId(nodeId)
      checkMetadata(metadata)
      await state.heartbeat(groupId, nodeId, metadata)
      return { ok: true as const }
    },
  )

  app.get(
    '/v1/groups/:group_id/members',
    {
      schema: {
        operationId: 'listMembers',
        tags,
        summary: 'List members',
        description: 'Who takes part, and when it was last heard of.',
        params: schema.GroupParams,
        response: { 200: schema.MembersAnswer },
      },
      config: { failures: [404] },
    },
    async (request) => {
      mayRead(request.identity, request.params.group_id)
      const members = await state.members(request.params.group_id)
      return {
        members: members.map((member) => ({
          node_id: member.nodeId,
          role: member.role,
          last_heartbeat_ms: member.lastHeartbeatMs ?? null,
          metadata: member.metadata,
        })),
      }
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
