import type { FastifyRequest } from 'fastify'
import { checkMayActFor, notJoinedMessage } from '../../auth/access.ts'
import { TimeSlice } from '../../common/clock.ts'
import { ServiceError } from '../../common/errors.ts'
import type { Caller, BatchRenewal, BatchRenewalResult } from '../../groups/port.ts'
import { batchBodyBytes } from '../request-bodies.ts'
import { countUnread, isIdentityValid } from '../connections.ts'
import * as schema from '../../schemas/elections.ts'
import { bodyFailures } from '../../schemas/failures.ts'
import type { App, Service } from '../service.ts'

/** How many renewals are processed before other callbacks may run. */
const itemsPerLook = 256

/** Lets a node with many groups renew all its leases in one request. */
export function renewManyRoute(app: App, service: Service): void {
  const { state, metrics } = service
  app.post(
    '/v1/renew',
    {
      schema: {
        operationId: 'renewMany',
        tags: ['election'],
        summary: 'Extend many leases of a node',
        description: 'Each renewal has its own result.',
        body: schema.RenewManyBody,
        response: { 200: schema.RenewManyAnswer },
      },
      config: { takesPart: true, isBatch: true, failures: bodyFailures },
      bodyLimit: batchBodyBytes,
      onSend: countUnread(service.limits),
    },
    async (request) => {
      const { node_id: nodeId, renewals } = request.body
      checkMayActFor(request.identity, nodeId)
      service.limits.batch(request, renewals.length, request.bodyBytes)
      const results = await renewAll(service, request, request.body)
      const granted = results.reduce((count, { ok }) => (ok ? count + 1 : count), 0)
      metrics.renewals(true, granted)
      metrics.renewals(false, results.length - granted)
      return { results, cluster_id: state.clusterId }
    },
  )
}

type Item = schema.RenewManyRequest['renewals'][number]

interface Slice {
  /** The index of each result. */
  readonly indexes: number[]
  readonly renewals: BatchRenewal[]
}

async function renewAll(
  service: Service,
  request: FastifyRequest,
  { node_id: nodeId, renewals }: schema.RenewManyRequest,
): Promise<schema.RenewResult[]> {
  const results = Array.from<schema.RenewResult>({ length: renewals.length })
  /** The first renewal of each group. Different promises for the same group would wait for each other's writes. */
  const firsts = new Map<string, Item>()
  const waiting: Promise<void>[] = []
  const timeSlice = new TimeSlice()
  const caller = service.limits.callerOf(request)
  let slice: Slice = { indexes: [], renewals: [] }
  // One request may contain ten thousand renewals, so this loop allocates as little as possible.
  for (const [index, item] of renewals.entries()) {
    const { group_id, term, extend_by_ms } = item
    const first = firsts.get(group_id)
    if (!request.identity.mayJoin(group_id)) {
      results[index] = { group_id, ok: false, error: 'UNAUTHORIZED', message: notJoinedMessage(group_id) }
    } else if (first && (first.term !== term || first.extend_by_ms !== extend_by_ms)) {
      const message = 'This batch already renews this group, with another term or duration.'
      results[index] = { group_id, ok: false, error: 'INVALID_REQUEST', message }
    } else {
      if (!first) firsts.set(group_id, item)
      slice.indexes.push(index)
      slice.renewals.push([group_id, term, extend_by_ms])
    }
    const isLast = index === renewals.length - 1
    if (!isLast && index % itemsPerLook !== itemsPerLook - 1) continue
    const renewing = renewSome(service, { nodeId, caller }, slice, results)
    if (renewing) waiting.push(renewing)
    slice = { indexes: [], renewals: [] }
    if (isLast || !timeSlice.isOver) continue
    await timeSlice.pause()
    if (!isIdentityValid(service, request)) {
      throw new ServiceError(
        'BACKEND_UNAVAILABLE',
        'Access rights were reloaded while this batch was running. Retry the batch.',
      )
    }
  }
  await Promise.all(waiting)
  return results
}

/** Returns undefined if there is nothing to wait for. */
function renewSome(
  { state, clock }: Service,
  { nodeId, caller }: { readonly nodeId: string; readonly caller: Caller },
  { indexes, renewals }: Slice,
  results: schema.RenewResult[],
): Promise<void> | undefined {
  const each = (itemAt: (renewal: BatchRenewal, at: number) => schema.RenewResult) => {
    for (const [at, index] of indexes.entries()) {
      const renewal = renewals[at]
      if (renewal) results[index] = itemAt(renewal, at)
    }
  }
  const answered = (answers: readonly BatchRenewalResult[]) => {
    const wallMs = clock.wallMs()
    each((renewal, at) => itemOf(renewal, answers[at] ?? {}, wallMs))
  }
  const failed = (error: unknown) => {
    if (!(error instanceof ServiceError)) throw error
    each(([group_id]) => ({ group_id, ok: false, error: error.code, message: error.message }))
  }
  try {
    const answers = state.forCaller(caller).renewMany(nodeId, renewals, caller.subject)
    if (answers instanceof Promise) return answers.then(answered, failed)
    answered(answers)
  } catch (error) {
    failed(error)
  }
  return undefined
}

function itemOf([group_id, term]: BatchRenewal, answer: BatchRenewalResult, wallMs: number): schema.RenewResult {
  if (typeof answer === 'number') {
    return { group_id, ok: true, term, lease_expires_at_ms: Math.round(wallMs + answer), lease_remaining_ms: answer }
  }
  const { refusal, currentTerm } = answer
  if (refusal) return { group_id, ok: false, error: refusal.code, message: refusal.message }
  return { group_id, ok: false, error: 'NOT_LEADER', ...(currentTerm !== undefined && { current_term: currentTerm }) }
}
