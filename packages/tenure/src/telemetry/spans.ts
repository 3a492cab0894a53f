import { messageOf } from '@tenure/internal/message'
import type { Clock } from '../common/clock.ts'
import { isTenureError } from '../common/errors.ts'
import type { CallReport, ElectionEvent, Origin } from '../engine/events.ts'
import type { ShardEvent } from '../shards/changes.ts'
import { electionOf } from './election-counters.ts'
import { errorStatus, spanKinds, type Attributes, type TelemetrySpan, type TelemetryTracer } from './api.ts'

/**
 * Spans of electors: one for each store call, one for each term with the events reported during it, and one without a
 * duration for each event outside a term. Spans of shards: one for the time in which this process owns a shard.
 *
 * Each span starts its own trace. Otherwise the span that was active when an elector was started would be the parent of
 * everything that the elector does for as long as its process lives.
 */
export class Spans {
  readonly #tracer: TelemetryTracer
  readonly #clock: Pick<Clock, 'wallMs'>
  readonly #terms = new Map<string, TelemetrySpan>()
  readonly #shards = new Map<string, TelemetrySpan>()
  /**
   * The newest error from each elector, until the report of the call that failed with it, which follows immediately.
   */
  readonly #errors = new Map<string, unknown>()

  constructor(tracer: TelemetryTracer, clock: Pick<Clock, 'wallMs'>) {
    this.#tracer = tracer
    this.#clock = clock
  }

  onEvent(event: ElectionEvent): void {
    const key = keyOf(event)
    const nowMs = this.#clock.wallMs()
    if (event.type === 'error' || event.type === 'renew-failed') this.#errors.set(key, event.error)
    if (event.type === 'renewed' || event.type === 'gap') return
    if (event.type === 'elected') {
      const attributes = { ...originOf(event), 'tenure.term': event.term }
      this.#terms.set(key, this.#start('tenure term', spanKinds.internal, nowMs, attributes))
      return
    }
    const term = this.#terms.get(key)
    if (term) term.addEvent(`tenure.${event.type}`, detailsOf(event), nowMs)
    else {
      const attributes = { ...originOf(event), ...detailsOf(event) }
      this.#start(`tenure ${event.type}`, spanKinds.internal, nowMs, attributes).end(nowMs)
    }
    if (event.type !== 'lost') return
    term?.setAttribute('tenure.reason', event.reason)
    term?.end(nowMs)
    this.#terms.delete(key)
  }

  onCall(call: CallReport): void {
    const key = keyOf(call)
    const nowMs = this.#clock.wallMs()
    const error = this.#errors.get(key)
    this.#errors.delete(key)
    const attributes = { ...originOf(call), 'tenure.verb': call.verb, 'tenure.result': call.result }
    const span = this.#start(`tenure ${call.verb}`, spanKinds.client, nowMs - call.durationMs, attributes)
    if (call.result === 'failed') {
      span.setAttribute('error.type', codeOf(error))
      span.setStatus({ code: errorStatus, message: error === undefined ? '' : messageOf(error) })
    }
    span.end(nowMs)
  }

  onShard(event: ShardEvent): void {
    const origin = electionOf(event)
    const nowMs = this.#clock.wallMs()
    if (event.type === 'error') {
      const attributes = {
        ...originOf(origin),
        'error.type': codeOf(event.error),
        'error.message': messageOf(event.error),
      }
      this.#start('tenure error', spanKinds.internal, nowMs, attributes).end(nowMs)
    }
    if (event.type !== 'gained' && event.type !== 'revoked' && event.type !== 'lost') return
    const { type, shard, name = String(shard), token } = event
    const key = `${keyOf(origin)} ${shard}`
    if (type === 'gained') {
      const attributes = { ...originOf(origin), 'tenure.shard': name, 'tenure.token': token }
      this.#shards.set(key, this.#start('tenure shard', spanKinds.internal, nowMs, attributes))
      return
    }
    const span = this.#shards.get(key)
    // The work may run on after the revocation, until the span ends.
    if (type === 'revoked') span?.addEvent('tenure.revoked', {}, nowMs)
    if (type !== 'lost') return
    span?.setAttribute('tenure.reason', event.reason)
    span?.end(nowMs)
    this.#shards.delete(key)
  }

  #start(name: string, kind: number, startTime: number, attributes: Attributes): TelemetrySpan {
    return this.#tracer.startSpan(name, { kind, root: true, startTime, attributes })
  }
}

function keyOf({ namespace, election, identity }: Origin): string {
  return JSON.stringify([namespace, election, identity])
}

function originOf({ namespace, election, identity }: Origin): Attributes {
  const where = { 'tenure.election': election, 'tenure.identity': identity }
  return namespace === undefined ? where : { ...where, 'tenure.namespace': namespace }
}

function detailsOf(event: ElectionEvent): Attributes {
  switch (event.type) {
    case 'new-leader':
      return { 'tenure.leader': event.record.holder, 'tenure.term': event.record.term }
    case 'lost':
      return { 'tenure.term': event.term, 'tenure.reason': event.reason }
    case 'eligibility':
      return { 'tenure.eligible': Number(event.eligible) }
    case 'renew-failed':
    case 'error':
      return { 'error.type': codeOf(event.error), 'error.message': messageOf(event.error) }
    default:
      return {}
  }
}

/** The same code as in `tenure_errors_total`. */
function codeOf(error: unknown): string {
  return isTenureError(error) ? error.code : 'OTHER'
}
