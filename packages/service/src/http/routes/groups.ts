/** Groups, their policies, and their members. */
import type { Static } from '@sinclair/typebox'
import type { FastifyRequest } from 'fastify'
import { canRead, checkMayAct, checkAdmin, checkMayRead } from '../../auth/access.ts'
import { deriveKeys, Seal } from '../../common/seal.ts'
import { checkGroupId, checkNodeId, metadataText } from '../../common/checks.ts'
import { noMetadata } from '../../groups/in-memory-group.ts'
import { TimeSlice } from '../../common/clock.ts'
import { ServiceError } from '../../common/errors.ts'
import type { Definition, GroupView, MemberView, Policy } from '../../groups/port.ts'
import { isAllowed } from '../../groups/in-memory-group.ts'
import { countUnread } from '../connections.ts'
import { GroupParams, Ok } from '../../schemas/common.ts'
import { bodyFailures } from '../../schemas/failures.ts'
import * as schema from '../../schemas/groups.ts'
import type { App, Service } from '../service.ts'
import { leaderOf } from '../../schemas/views.ts'

const response = { 200: schema.DefinedAnswer, 201: schema.DefinedAnswer }

function createGroupRoute(app: App, service: Service): void {
  app.post(
    '/v1/groups',
    {
      schema: {
        operationId: 'createGroup',
        tags: ['groups'],
        summary: 'Define a group',
        description: 'Repeating the same definition gets 200. A different definition gets CONFLICT.',
        body: schema.CreateGroupBody,
        response,
      },
      config: { failures: [409, ...bodyFailures] },
    },
    async (request, reply) => {
      checkAdmin(request.identity)
      const { group_id: groupId, ...definition } = request.body
      const { status, answer } = await define(groupsOf(service, request), groupId, definition, { replace: false })
      return reply.code(status).send(answer)
    },
  )
}

function putGroupRoute(app: App, service: Service): void {
  app.put(
    '/v1/groups/:group_id',
    {
      schema: {
        operationId: 'putGroup',
        tags: ['groups'],
        summary: 'Define or change a group',
        description:
          'The definition applies to campaigns and renewals from then on. A leader that is no longer allowed keeps its lease until it expires, and cannot renew it.',
        params: GroupParams,
        body: schema.PutGroupBody,
        response,
      },
      config: { failures: [404, ...bodyFailures] },
    },
    async (request, reply) => {
      checkAdmin(request.identity)
      const { status, answer } = await define(groupsOf(service, request), request.params.group_id, request.body, {
        replace: true,
      })
      return reply.code(status).send(answer)
    },
  )
}

/** Returns a copy of the service whose calls to the groups are made for this caller. */
function groupsOf(service: Service, request: FastifyRequest): Pick<Service, 'state' | 'clock' | 'policy'> {
  const { state, limits, clock, policy } = service
  return { state: state.forCaller(limits.callerOf(request)), clock, policy }
}

async function define(
  { state, clock, policy }: Pick<Service, 'state' | 'clock' | 'policy'>,
  groupId: string,
  definition: Static<typeof schema.PutGroupBody>,
  options: { replace: boolean },
) {
  const done = await state.define(groupId, definitionOf(definition, policy), options)
  const view = await state.group(groupId)
  const group = viewOf(view, clock.wallMs())
  const isRemoved = view.lease && !view.lease.ended && !isAllowed(view.definition, view.lease.nodeId)
  const removed = isRemoved && group.leader ? { removed_leader: group.leader } : {}
  const answer = { ok: true as const, group, ...removed }
  return { status: done === 'created' ? (201 as const) : (200 as const), answer }
}

/** No group id begins with this character. */
const sealMark = '~'
const longestGroupId = 128

function listGroupsRoute(app: App, { state, secret, clock, limits, revocations }: Service): void {
  const seal = new Seal(deriveKeys(secret, 'pages'), longestGroupId)
  const placeOf = (after: string) => (after.startsWith(sealMark) ? seal.open(after.slice(sealMark.length)) : after)
  app.get(
    '/v1/groups',
    {
      schema: {
        operationId: 'listGroups',
        tags: ['groups'],
        summary: 'List groups',
        description: 'In pages, by id.',
        querystring: schema.GroupsQuery,
        response: { 200: schema.GroupsAnswer },
      },
      onSend: countUnread(limits),
    },
    async (request) => {
      const { limit = '100', search = '' } = request.query
      const { identity } = request
      limits.groups(request, Number(limit))
      const after = request.query.after === undefined ? undefined : placeOf(request.query.after)
      if (request.query.after !== undefined && after === undefined) {
        throw new ServiceError('INVALID_REQUEST', '"after" is not from this service. Start again without it.')
      }
      // A caller that could begin at any position could find out which group comes after it.
      if (after !== undefined && after === request.query.after) checkMayRead(identity, after)
      const sought = search.toLowerCase()
      const isShown = (groupId: string) => groupId.toLowerCase().includes(sought) && canRead(identity, groupId)
      const asked = state.forCaller(limits.callerOf(request))
      const { groups, next, passedOver } = await asked.groups({ after, limit: Number(limit), isShown })
      limits.chargeSkipped(request, passedOver)
      const seesAll = identity.reader || identity.admin
      // Callers that see only some of the groups learn nothing about the others, not even how many there are.
      const total = seesAll && sought === '' ? Math.max(0, (await asked.count()) - revocations.count) : undefined
      return {
        ...(total !== undefined && { total }),
        groups: groups.map((group) => viewOf(group, clock.wallMs())),
        // A page can end at a group that the caller may not read. In that case, its id must not be shown either.
        next: next === undefined ? null : seesAll ? next : sealMark + seal.close(next),
      }
    },
  )
}

function groupRoute(app: App, service: Service): void {
  app.get(
    '/v1/groups/:group_id',
    {
      schema: {
        operationId: 'getGroup',
        tags: ['groups'],
        summary: 'Get a group',
        description: 'The policy and the leader of a group.',
        params: GroupParams,
        response: { 200: schema.GroupAnswer },
      },
      config: { failures: [404] },
    },
    async (request) => {
      checkMayRead(request.identity, request.params.group_id)
      const { state, clock } = groupsOf(service, request)
      return { ok: true as const, group: viewOf(await state.group(request.params.group_id), clock.wallMs()) }
    },
  )
}

function deleteGroupRoute(app: App, { state, limits }: Service): void {
  app.delete(
    '/v1/groups/:group_id',
    {
      schema: {
        operationId: 'deleteGroup',
        tags: ['groups'],
        summary: 'Delete a group',
        description: 'Deletes a group that has no leader. Its terms continue if it is created again.',
        params: GroupParams,
        querystring: schema.DeleteQuery,
        response: { 200: Ok },
      },
      config: { failures: [404, 409] },
    },
    async (request) => {
      checkAdmin(request.identity)
      await state
        .forCaller(limits.callerOf(request))
        .remove(request.params.group_id, { force: request.query.force === 'true' })
      return { ok: true as const }
    },
  )
}

function heartbeatRoute(app: App, { state, limits }: Service): void {
  app.post(
    '/v1/groups/:group_id/heartbeat',
    {
      schema: {
        operationId: 'heartbeat',
        tags: ['groups'],
        summary: 'Send a heartbeat',
        description: 'Makes the node a member without a campaign.',
        params: GroupParams,
        body: schema.HeartbeatBody,
        response: { 200: Ok },
      },
      config: { takesPart: true, failures: [404, ...bodyFailures] },
    },
    async (request) => {
      const { group_id: groupId } = request.params
      const { node_id: nodeId, metadata = {}, instance_start_uuid: instance } = request.body
      checkMayAct(request.identity, groupId, nodeId)
      checkNodeId(nodeId)
      checkGroupId(groupId, request.body.group_id)
      const groups = state.forCaller(limits.callerOf(request))
      await groups.heartbeat(groupId, nodeId, metadataText(metadata), instance)
      return { ok: true as const }
    },
  )
}

/** The approximate size of a member in a response, without its text. */
const memberBytes = 100
const membersPerLook = 64

function membersRoute(app: App, { state, limits }: Service): void {
  app.get(
    '/v1/groups/:group_id/members',
    {
      schema: {
        operationId: 'listMembers',
        tags: ['groups'],
        summary: 'List members',
        description: 'The nodes that take part in the group, and when each last sent something.',
        params: GroupParams,
        response: { 200: schema.MembersAnswer },
      },
      onSend: countUnread(limits),
      config: { failures: [404] },
    },
    async (request, reply) => {
      checkMayRead(request.identity, request.params.group_id)
      const members = await state.forCaller(limits.callerOf(request)).members(request.params.group_id)
      limits.chargeResponse(
        request,
        members.reduce((sum, { nodeId, metadata }) => sum + memberBytes + nodeId.length + metadata.length, 0),
      )
      // Converts one member at a time: the metadata of all members as objects would take a hundred megabytes.
      const texts: string[] = []
      const timeSlice = new TimeSlice()
      for (const member of members) {
        texts.push(memberJson(member))
        if (texts.length % membersPerLook === 0 && timeSlice.isOver) await timeSlice.pause()
      }
      const answer = `{"members":[${texts.join()}]}`
      return reply.type('application/json; charset=utf-8').send(answer as never)
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
    // Leaves out the metadata of a lease that has ended. Many groups have no leader, and a page that lists them should
    // stay small.
    ...(lease?.ended && { previous_leader: leaderOf({ ...lease, metadata: noMetadata }, wallMs) }),
    candidates: group.candidates,
    standbys: group.standbys,
    waiting: group.waiting,
  }
}

function memberJson(member: MemberView): string {
  const { nodeId, role, lastHeartbeatMs, instance, metadata, waiting, live, seat, generation, eligible } = member
  const rest = JSON.stringify({
    node_id: nodeId,
    role,
    last_heartbeat_ms: lastHeartbeatMs ?? null,
    waiting,
    live,
    instance_start_uuid: instance,
    seat,
    generation,
    eligible,
  })
  return `${rest.slice(0, -1)},"metadata":${metadata}}`
}

export const groupRoutes = [
  createGroupRoute,
  listGroupsRoute,
  groupRoute,
  putGroupRoute,
  deleteGroupRoute,
  heartbeatRoute,
  membersRoute,
]
