/** Campaign, renew, resign, leader. */
import { setMaxListeners } from 'node:events'
import { checkMayAct, checkAdmin, checkMayRead, validForMs } from '../../auth/access.ts'
import { checkCheckpoint, checkGroupId, checkNodeId, metadataText } from '../../common/checks.ts'
import { ServiceError } from '../../common/errors.ts'
import type { HolderClaim, GroupState } from '../../groups/port.ts'
import { whileConnected } from '../connections.ts'
import { GroupParams } from '../../schemas/common.ts'
import * as schema from '../../schemas/elections.ts'
import { bodyFailures } from '../../schemas/failures.ts'
import type { App, Service } from '../service.ts'
import { leaderOf, leadershipOf } from '../../schemas/views.ts'

const config = { takesPart: true, failures: [404, 409, ...bodyFailures] }
/**
 * The wait for a campaign that loses although there is no leader: another campaign was ahead of it in the queue, or it
 * is not allowed to get this term.
 */
const soonMs = 100
/** The signal of campaigns that do not wait. */
const here = new AbortController().signal
// Every campaign that is forwarded to the active replica listens to this signal while in flight.
setMaxListeners(0, here)

function campaignRoute(app: App, service: Service): void {
  const { state, clock, metrics, limits, hub } = service
  const cluster_id = state.clusterId
  app.post(
    '/v1/groups/:group_id/campaign',
    {
      schema: {
        operationId: 'campaign',
        tags: ['election'],
        summary: 'Try to become leader',
        description: 'A campaign that loses also gets 200, with the leader and the time to wait before the next try.',
        params: GroupParams,
        body: schema.CampaignBody,
        response: { 200: schema.CampaignAnswer },
      },
      config,
    },
    async (request) => {
      const { group_id: groupId } = request.params
      const { body } = request
      checkMayAct(request.identity, groupId, body.node_id)
      // This is the boundary to clients. The schema has checked types and lengths, and these functions check what a
      // schema cannot express. No later code checks the content of a claim again.
      checkNodeId(body.node_id)
      checkGroupId(groupId, body.group_id)
      const { metadata = {}, instance_start_uuid, request_id, attempt } = body
      const text = metadataText(metadata)
      const claim = {
        groupId,
        nodeId: body.node_id,
        attempt: attempt ?? candidacyOf(instance_start_uuid, request_id) ?? clock.randomId(),
        attemptIsOnce: attempt !== undefined,
        instance: instance_start_uuid,
        ttlMs: body.lease_ttl_ms,
        metadata: text,
        afterTerm: body.after_term,
        byAdministrator: request.identity.admin,
        // A campaign must not win with a credential that expired while it waited.
        waitMs: Math.min(body.wait_ms ?? 0, validForMs(request.identity, clock.wallMs())),
        writeId: body.write_id,
        subject: limits.countsGroups ? limits.subjectOf(request) : undefined,
      }
      const groups = state.forCaller(limits.callerOf(request))
      const run = (signal: AbortSignal) => groups.campaign(claim, signal)
      const waits = claim.waitMs > 0
      const verdict = await (waits ? limits.waiting(request, () => whileConnected(service, request, run)) : run(here))
      metrics.campaign(verdict.granted)
      if (verdict.granted) limits.chargeChange(request, hub.watchersOf(groupId))
      const { retry_after_ms = soonMs, ...leadership } = leadershipOf(verdict, clock.wallMs())
      if (verdict.granted) return { is_leader: true, ...leadership, cluster_id }
      const lost = { is_leader: false, ...leadership, retry_after_ms, cluster_id }
      const already = leadsAlready(groupId, body.node_id, verdict)
      if (!body.strict) return already === undefined ? lost : { ...lost, message: already }
      const { leader: current_leader, highest_term } = leadership
      throw new ServiceError('CONFLICT', conflictText(groupId, body.node_id, verdict), {
        details: { current_leader, highest_term, retry_after_ms },
      })
    },
  )
}

function renewRoute(app: App, { state, clock, metrics, limits }: Service): void {
  const cluster_id = state.clusterId
  app.post(
    '/v1/groups/:group_id/renew',
    {
      schema: {
        operationId: 'renew',
        tags: ['election'],
        summary: 'Extend a lease',
        description: 'Must be called before the lease expires. A renewal never shortens a lease.',
        params: GroupParams,
        body: schema.RenewBody,
        response: { 200: schema.RenewAnswer },
      },
      config,
    },
    // Returns without a promise if none is needed, because most requests are renewals.
    (request) => {
      const { group_id: groupId } = request.params
      const { body } = request
      checkMayAct(request.identity, groupId, body.node_id)
      const answer = (verdict: GroupState) => {
        metrics.renewals(verdict.granted, 1)
        const { refusal } = verdict
        if (refusal) throw new ServiceError(refusal.code, refusal.message, refusal)
        const wallMs = clock.wallMs()
        if (!verdict.granted || !verdict.lease) throw notLeader(verdict, groupId, wallMs)
        return { ok: true as const, leader: leaderOf(verdict.lease, wallMs), cluster_id }
      }
      const { extend_by_ms: extendByMs, checkpoint } = body
      if (checkpoint !== undefined) checkCheckpoint(checkpoint)
      const caller = limits.callerOf(request)
      const { subject } = caller
      const verdict = state.forCaller(caller).renew({ ...heldOf(groupId, body), extendByMs, checkpoint, subject })
      return verdict instanceof Promise ? verdict.then(answer) : answer(verdict)
    },
  )
}

function resignRoute(app: App, { state, clock, limits, hub }: Service): void {
  app.post(
    '/v1/groups/:group_id/resign',
    {
      schema: {
        operationId: 'resign',
        tags: ['election'],
        summary: 'Release a lease',
        description: 'The release is durable before the response is sent. If repeated, it gets the same response.',
        params: GroupParams,
        body: schema.ResignBody,
        response: { 200: schema.ResignAnswer },
      },
      config: { ...config, administers: true },
    },
    async (request) => {
      const { group_id: groupId } = request.params
      const { body } = request
      if (body.force) checkAdmin(request.identity)
      else checkMayAct(request.identity, groupId, body.node_id)
      const { successor } = body
      if (successor !== undefined) checkNodeId(successor, 'successor')
      if (successor !== undefined && successor === body.node_id) {
        throw new ServiceError('INVALID_REQUEST', 'successor must name a node other than node_id, which resigns.')
      }
      const held = { ...heldOf(groupId, body), successor }
      const groups = state.forCaller(limits.callerOf(request))
      const verdict = await (body.force ? groups.forceResign(held) : groups.resign(held))
      if (!verdict.granted) throw notLeader(verdict, groupId, clock.wallMs())
      limits.chargeChange(request, hub.watchersOf(groupId))
      const leader = verdict.lease && { leader: leaderOf(verdict.lease, clock.wallMs()) }
      return { ok: true as const, ...leader, cluster_id: state.clusterId }
    },
  )
}

function leaderRoute(app: App, { state, clock, limits }: Service): void {
  app.get(
    '/v1/groups/:group_id/leader',
    {
      schema: {
        operationId: 'getLeader',
        tags: ['election'],
        summary: 'Get the leader',
        description: '`leader` is null if there is none.',
        params: GroupParams,
        response: { 200: schema.LeaderAnswer },
      },
      config: { failures: [404] },
    },
    async (request) => {
      checkMayRead(request.identity, request.params.group_id)
      const verdict = await state.forCaller(limits.callerOf(request)).leader(request.params.group_id)
      return { ...leadershipOf(verdict, clock.wallMs()), cluster_id: state.clusterId }
    },
  )
}

/** Returns the attempt id for clients that do not send one. */
function candidacyOf(instance: string | undefined, request: string | undefined): string | undefined {
  if (instance !== undefined) return `instance:${instance}`
  return request === undefined ? undefined : `request:${request}`
}

function heldOf(groupId: string, body: schema.ResignRequest): HolderClaim {
  checkGroupId(groupId, body.group_id)
  const { node_id: nodeId, term, attempt, instance_start_uuid: instance, version, write_id: writeId } = body
  return { groupId, nodeId, term, attempt, instance, version, writeId }
}

function notLeader(verdict: GroupState, groupId: string, wallMs: number): ServiceError {
  const { leader, ...rest } = leadershipOf(verdict, wallMs)
  const text = `This node does not lead group "${groupId}" in this term.`
  return new ServiceError('NOT_LEADER', text, { details: { current_leader: leader, ...rest } })
}

function conflictText(groupId: string, nodeId: string, standing: GroupState): string {
  const { lease } = standing
  if (!lease || lease.ended) return `Group "${groupId}" has no leader, but this campaign may not lead it now.`
  return leadsAlready(groupId, nodeId, standing) ?? `Another node leads group "${groupId}".`
}

/**
 * Returns advice for a node that lost to itself, either to another start of the same node or to a campaign that it sent
 * without an id.
 */
function leadsAlready(groupId: string, nodeId: string, { lease }: GroupState): string | undefined {
  if (!lease || lease.ended || lease.nodeId !== nodeId) return undefined
  const already = `Node "${nodeId}" already leads group "${groupId}", from another campaign.`
  const advice = `Renew that lease with term ${lease.term}, resign it first, or wait until it ends.`
  return `${already} ${advice} A campaign that repeats its instance_start_uuid or request_id gets its own lease again.`
}

export const electionRoutes = [campaignRoute, renewRoute, resignRoute, leaderRoute]
