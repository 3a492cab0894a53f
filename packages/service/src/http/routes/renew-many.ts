import type { FastifyRequest } from 'fastify'
import { maySpeakFor, notJoined } from '../../auth/access.ts'
import { Pace } from '../../clock.ts'
import { ServiceError } from '../../errors.ts'
import type { Caller, ManyRenewal, ManyRenewed } from '../../groups/groups.ts'
import { batchBodyBytes } from '../bodies.ts'
import { countUnread, isStillKnown } from '../connections.ts'
import * as schema from '../schemas/elections.ts'
import { bodyFailures } from '../schemas/failures.ts'
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

type Item = schema.RenewManyRequest['renewals'][number]

interface Slice {
  /** The index of each result. */
  readonly places: number[]
  readonly renewals: ManyRenewal[]
}

async function renewAll(
  service: Service,
  request: FastifyRequest,
  { node_id: nodeId, renewals }: schema.RenewManyRequest,
): Promise<schema.RenewResult[]> {
  const results = Array.from<schema.RenewResult>({ length: renewals.length })
  /** The first renewal of each group. Several different promises for one group would wait for each other's writes. */
  const firsts = new Map<string, Item>()
  const waiting: Promise<void>[] = []
  const pace = new Pace()
  const caller = service.limits.callerOf(request)
  let slice: Slice = { places: [], renewals: [] }
  // One request may have ten thousand renewals, so this loop creates only what is needed.
  for (const [index, item] of renewals.entries()) {
    const { group_id, term, extend_by_ms } = item
    const first = firsts.get(group_id)
    if (!request.identity.mayJoin(group_id)) {
      results[index] = { group_id, ok: false, error: 'UNAUTHORIZED', message: notJoined(group_id) }
    } else if (first && (first.term !== term || first.extend_by_ms !== extend_by_ms)) {
      const message = 'This batch already renews this group, with another term or duration.'
      results[index] = { group_id, ok: false, error: 'INVALID_REQUEST', message }
    } else {
      if (!first) firsts.set(group_id, item)
      slice.places.push(index)
      slice.renewals.push([group_id, term, extend_by_ms])
    }
    const isLast = index === renewals.length - 1
    if (!isLast && index % itemsPerLook !== itemsPerLook - 1) continue
    const renewing = renewSome(service, { nodeId, caller }, slice, results)
    if (renewing) waiting.push(renewing)
    slice = { places: [], renewals: [] }
    if (isLast || !pace.isOver) continue
    await pace.pause()
    if (!isStillKnown(service, request)) {
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
  { places, renewals }: Slice,
  results: schema.RenewResult[],
): Promise<void> | undefined {
  const each = (itemAt: (renewal: ManyRenewal, at: number) => schema.RenewResult) => {
    for (const [at, place] of places.entries()) {
      const renewal = renewals[at]
      if (renewal) results[place] = itemAt(renewal, at)
    }
  }
  const answered = (answers: readonly ManyRenewed[]) => {
    const wallMs = clock.wallMs()
    each((renewal, at) => itemOf(renewal, answers[at] ?? {}, wallMs))
  }
  const failed = (error: unknown) => {
    if (!(error instanceof ServiceError)) throw error
    each(([group_id]) => ({ group_id, ok: false, error: error.code, message: error.message }))
  }
  try {
    const answers = state.as(caller).renewMany(nodeId, renewals, caller.subject)
    if (answers instanceof Promise) return answers.then(answered, failed)
    answered(answers)
  } catch (error) {
    failed(error)
  }
  return undefined
}

function itemOf([group_id, term]: ManyRenewal, answer: ManyRenewed, wallMs: number): schema.RenewResult {
  if (typeof answer === 'number') {
    return { group_id, ok: true, term, lease_expires_at_ms: Math.round(wallMs + answer), lease_remaining_ms: answer }
  }
  const { refusal, currentTerm } = answer
  if (refusal) return { group_id, ok: false, error: refusal.code, message: refusal.message }
  return { group_id, ok: false, error: 'NOT_LEADER', ...(currentTerm !== undefined && { current_term: currentTerm }) }
}
