/** Campaign, renew, resign, leader: document 002's core. */
import { mayAct, mayRead, validForMs } from '../access.ts'
import { ServiceError } from '../errors.ts'
import type { App, Service } from '../service.ts'
import * as schema from '../schemas.ts'
import type { HeldClaim, RenewClaim, Verdict } from '../state.ts'
import { leaderOf, leadershipOf } from '../views.ts'
import { checkMetadata, checkNodeId } from '../checks.ts'
import { whileHere } from '../while-here.ts'

const tags = ['election']
/** For who lost although nobody leads: it stood behind somebody in line, or may not have this term at all. */
const soonMs = 100

export function electionRoutes(app: App, service: Service): void {
  const { state, clock, metrics, limits } = service
  const cluster_id = state.clusterId

  app.post(
    '/v1/groups/:group_id/campaign',
    {
      schema: {
        operationId: 'campaign',
        tags,
        summary: 'Try to become leader',
        description: 'Who loses gets 200 as well, with the leader and a time after which to ask again.',
        params: schema.GroupParams,
        body: schema.CampaignBody,
        response: { 200: schema.CampaignAnswer },
      },
      config: { failures: [404, 409, ...schema.bodyFailures] },
    },
    async (request) => {
      const { group_id: groupId } = request.params
      const { body } = request
      mayAct(request.identity, groupId, body.node_id)
      checkNodeId(body.node_id)
      const { metadata = {}, instance_start_uuid, request_id, attempt } = body
      checkMetadata(metadata)
      if (limits.countsNewGroups && !(await state.leader(groupId)).lease) limits.newGroup(request)
      const claim = {
        groupId,
        nodeId: body.node_id,
        attempt: attempt ?? candidacyOf(instance_start_uuid, request_id) ?? clock.randomId(),
        attemptIsOnce: attempt !== undefined,
        ttlMs: body.lease_ttl_ms,
        metadata,
        afterTerm: body.after_term,
        // Nobody wins by what it showed after that has run out.
        waitMs: Math.min(body.wait_ms ?? 0, validForMs(request.identity, clock.wallMs())),
      }
      const run = (signal: AbortSignal) => state.campaign(claim, signal)
      const waits = claim.waitMs > 0
      const verdict = await (waits ? limits.waiting(request, () => whileHere(service, request, run)) : run(here))
      metrics.campaign(verdict.granted)
      const { retry_after_ms = soonMs, ...leadership } = leadershipOf(verdict, clock.wallMs())
      if (verdict.granted) return { is_leader: true, ...leadership, cluster_id }
      const answer = { is_leader: false, ...leadership, retry_after_ms, cluster_id }
      if (!body.strict) return answer
      throw new ServiceError('CONFLICT', `Another node leads group "${groupId}".`, { details: conflictOf(answer) })
    },
  )

  app.post(
    '/v1/groups/:group_id/renew',
    {
      schema: {
        operationId: 'renew',
        tags,
        summary: 'Extend a lease',
        description: 'Before it runs out. A renewal never shortens what was promised.',
        params: schema.GroupParams,
        body: schema.RenewBody,
        response: { 200: schema.RenewAnswer },
      },
      config: { failures: [404, 409, ...schema.bodyFailures] },
    },
    // Without a promise where none is needed: of all requests these are the most.
    (request) => {
      const { group_id: groupId } = request.params
      mayAct(request.identity, groupId, request.body.node_id)
      const answer = (verdict: Verdict) => {
        metrics.renewals(verdict.granted, 1)
        const wallMs = clock.wallMs()
        if (!verdict.granted || !verdict.lease) throw notLeader(verdict, groupId, wallMs)
        return { ok: true as const, leader: leaderOf(verdict.lease, wallMs), cluster_id }
      }
      const verdict = state.renew(renewalOf(groupId, request.body))
      return verdict instanceof Promise ? verdict.then(answer) : answer(verdict)
    },
  )

  app.post(
    '/v1/groups/:group_id/resign',
    {
      schema: {
        operationId: 'resign',
        tags,
        summary: 'Give a lease back',
        description: 'Durable before it is answered. Repeated, it is answered alike.',
        params: schema.GroupParams,
        body: schema.ResignBody,
        response: { 200: schema.ResignAnswer },
      },
      config: { failures: [404, 409, ...schema.bodyFailures] },
    },
    async (request) => {
      const { group_id: groupId } = request.params
      mayAct(request.identity, groupId, request.body.node_id)
      const verdict = await state.resign(heldOf(groupId, request.body))
      if (!verdict.granted) throw notLeader(verdict, groupId, clock.wallMs())
      return {
        ok: true as const,
        ...(verdict.lease && { leader: leaderOf(verdict.lease, clock.wallMs()) }),
        cluster_id,
      }
    },
  )

  app.get(
    '/v1/groups/:group_id/leader',
    {
      schema: {
        operationId: 'getLeader',
        tags,
        summary: 'Who leads',
        description: '`leader` is null when nobody does.',
        params: schema.GroupParams,
        response: { 200: schema.LeaderAnswer },
      },
      config: { failures: [404] },
    },
    async (request) => {
      mayRead(request.identity, request.params.group_id)
      const verdict = await state.leader(request.params.group_id)
      return { ...leadershipOf(verdict, clock.wallMs()), cluster_id }
    },
  )
}

/** `POST /v1/renew`: a node with many groups sends one request. */
export function renewManyRoute(app: App, service: Service): void {
  const { state, clock, metrics } = service
  app.post(
    '/v1/renew',
    {
      schema: {
        operationId: 'renewMany',
        tags,
        summary: 'Extend many leases of a node',
        description: 'Each has its own result.',
        body: schema.RenewManyBody,
        response: { 200: schema.RenewManyAnswer },
      },
      config: { failures: schema.bodyFailures },
      bodyLimit: service.options.batchBodyLimit,
    },
    async (request) => {
      const { node_id: nodeId, renewals } = request.body
      service.limits.batch(request, renewals.length)
      const { identity } = request
      const wallMs = clock.wallMs()
      const results: schema.RenewResult[] = []
      const waiting: Promise<void>[] = []
      let granted = 0
      const answer = (index: number, groupId: string, verdict: Verdict) => {
        if (verdict.granted) granted += 1
        results[index] = itemOf(groupId, verdict, wallMs)
      }
      // Ten thousand of them come in one request: nothing is made here that is not needed.
      for (const [index, { group_id: groupId, term, extend_by_ms: extendByMs }] of renewals.entries()) {
        try {
          mayAct(identity, groupId, nodeId)
          const verdict = state.renew({ groupId, nodeId, term, extendByMs })
          if (!(verdict instanceof Promise)) {
            answer(index, groupId, verdict)
            continue
          }
          results[index] = { group_id: groupId, ok: false }
          const failed = (error: unknown) => void (results[index] = failedItem(groupId, error))
          waiting.push(verdict.then((later) => answer(index, groupId, later), failed))
        } catch (error) {
          results[index] = failedItem(groupId, error)
        }
      }
      await Promise.all(waiting)
      metrics.renewals(true, granted)
      metrics.renewals(false, results.length - granted)
      return { results, cluster_id: state.clusterId }
    },
  )
}

function itemOf(group_id: string, { granted, lease }: Verdict, wallMs: number): schema.RenewResult {
  if (granted && lease) {
    return {
      group_id,
      ok: true,
      term: lease.term,
      lease_expires_at_ms: Math.round(wallMs + lease.remainingMs),
      lease_remaining_ms: Math.floor(lease.remainingMs),
    }
  }
  return { group_id, ok: false, error: 'NOT_LEADER', ...(lease && { current_term: lease.term }) }
}

function failedItem(group_id: string, error: unknown): schema.RenewResult {
  if (!(error instanceof ServiceError)) throw error
  return { group_id, ok: false, error: error.code, message: error.message }
}

/** What is the same candidacy for clients that know nothing of attempts. */
function candidacyOf(instance: string | undefined, request: string | undefined): string | undefined {
  if (instance !== undefined) return `instance:${instance}`
  return request === undefined ? undefined : `request:${request}`
}

function heldOf(groupId: string, body: schema.ResignRequest): HeldClaim {
  return { groupId, nodeId: body.node_id, term: body.term, attempt: body.attempt, version: body.version }
}

function renewalOf(groupId: string, body: schema.RenewRequest): RenewClaim {
  const { node_id: nodeId, term, attempt, version, extend_by_ms: extendByMs, carry } = body
  return { groupId, nodeId, term, attempt, version, extendByMs, carry }
}

function notLeader(verdict: Verdict, groupId: string, wallMs: number): ServiceError {
  const { leader, ...rest } = leadershipOf(verdict, wallMs)
  const text = `This node and term do not lead group "${groupId}".`
  return new ServiceError('NOT_LEADER', text, { details: { current_leader: leader, ...rest } })
}

function conflictOf(answer: { leader: unknown; highest_term: number; retry_after_ms: number }) {
  const { leader, highest_term, retry_after_ms } = answer
  return { current_leader: leader, highest_term, retry_after_ms }
}

const here = new AbortController().signal
