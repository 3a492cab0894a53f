import type { FastifyRequest } from 'fastify'
import { maySpeakFor, notJoined } from '../../auth/access.ts'
import { Pace } from '../../clock.ts'
import { ServiceError } from '../../errors.ts'
import type { MaybePromise, GroupStanding } from '../../groups/groups.ts'
import { batchBodyBytes } from '../bodies.ts'
import { countUnread, isStillKnown } from '../connections.ts'
import * as schema from '../schemas/elections.ts'
import { bodyFailures } from '../schemas/failures.ts'
import type { App, Service } from '../service.ts'

const itemsPerLook = 256

/** A node with many groups sends one request. */
export function renewManyRoute(app: App, service: Service): void {
  const { state, metrics } = service
  app.post(
    '/v1/renew',
    {
      schema: {
        operationId: 'renewMany',
        tags: ['election'],
        summary: 'Extend many leases of a node',
        description: 'Each has its own result.',
        body: schema.RenewManyBody,
        response: { 200: schema.RenewManyAnswer },
      },
      config: { takesPart: true, isBatch: true, failures: bodyFailures },
      bodyLimit: batchBodyBytes,
      onSend: countUnread(service.limits),
    },
    async (request) => {
      const { node_id: nodeId, renewals } = request.body
      maySpeakFor(request.identity, nodeId)
      service.limits.batch(request, renewals.length, request.bodyBytes)
      const results = await renewAll(service, request, request.body)
      const granted = results.reduce((count, { ok }) => (ok ? count + 1 : count), 0)
      metrics.renewals(true, granted)
      metrics.renewals(false, results.length - granted)
      return { results, cluster_id: state.clusterId }
    },
  )
}

/** A renewal that was not answered at once. */
interface Pending {
  readonly term: number
  readonly extendByMs: number
  readonly result: Promise<schema.RenewResult>
}

async function renewAll(
  service: Service,
  request: FastifyRequest,
  { node_id: nodeId, renewals }: schema.RenewManyRequest,
): Promise<schema.RenewResult[]> {
  const { state, clock } = service
  const pace = new Pace()
  /** Of groups whose renewal waits for the disk, or for another replica. */
  const waitingFor = new Map<string, Pending>()
  let wallMs = clock.wallMs()
  // Ten thousand of them come in one request: nothing is made here that is not needed.
  const renew = (group_id: string, term: number, extendByMs: number): MaybePromise<schema.RenewResult> => {
    if (!request.identity.mayJoin(group_id)) {
      return { group_id, ok: false, error: 'UNAUTHORIZED', message: notJoined(group_id) }
    }
    const earlier = waitingFor.get(group_id)
    // The same once more changes nothing.
    if (earlier?.term === term && earlier.extendByMs === extendByMs) return earlier.result
    // Longer promises of one group wait for each other's writes: a batch full of them would never end.
    if (earlier) {
      const message = 'This batch makes the lease of this group longer already.'
      return { group_id, ok: false, error: 'INVALID_REQUEST', message }
    }
    const failed = (error: unknown) => failedItem(group_id, error)
    try {
      const verdict = state.renew({ groupId: group_id, nodeId, term, extendByMs })
      if (!(verdict instanceof Promise)) return itemOf(group_id, verdict, wallMs)
      const result = verdict.then((later) => itemOf(group_id, later, wallMs), failed)
      waitingFor.set(group_id, { term, extendByMs, result })
      return result
    } catch (error) {
      return failed(error)
    }
  }
  const results: schema.RenewResult[] = []
  const waiting: Promise<void>[] = []
  for (const [index, { group_id, term, extend_by_ms }] of renewals.entries()) {
    const result = renew(group_id, term, extend_by_ms)
    if (result instanceof Promise) waiting.push(result.then((later) => void (results[index] = later)))
    else results[index] = result
    if (index % itemsPerLook !== itemsPerLook - 1 || !pace.isOver) continue
    await pace.pause()
    wallMs = clock.wallMs()
    if (!isStillKnown(service, request)) {
      throw new ServiceError('BACKEND_UNAVAILABLE', 'Rights were read again meanwhile. Send the batch again.')
    }
  }
  await Promise.all(waiting)
  return results
}

function itemOf(group_id: string, { granted, lease, refusal }: GroupStanding, wallMs: number): schema.RenewResult {
  if (refusal) return { group_id, ok: false, error: refusal.code, message: refusal.message }
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
