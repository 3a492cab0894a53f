import type { MultiClusterAnswer, MultiClusterLease } from 'tenure/stores/multicluster'
import { answerError } from './answer.ts'
import { drop, newPendingCall, type PendingCall } from './pending-call.ts'
import { readRequest, type ValidRequest } from './request.ts'

/** A candidate's latest request. */
export interface Tracked extends PendingCall {
  readonly key: string
  readonly id: string
  readonly request: ValidRequest | undefined
  readonly malformed: string | undefined
  readonly leaseDurationMs: number
  /** Whether its candidate has been stale for a long time: it made no other request. */
  isSilent: boolean
  /** Whether the status has shown its answer. */
  isAnswered: boolean
}

/** What changed since a resource was last observed. */
export interface Noticed {
  /** Whether there is a new request. */
  isAsked: boolean
  /** Whether a candidate made another request before the previous one was answered. */
  isNeglected: boolean
  /** Whether another relay has answered a request. */
  isAnsweredElsewhere: boolean
}

/** The maximum that the schema allows. */
const mostKeys = 64
const usualLeaseMs = 15_000
/** A candidate is stale if it makes no request for this many lease durations, and for at least `silentMs`. */
const silentLeases = 4
const silentMs = 60_000

/** The requests of one resource: what is requested, what was answered, and which candidates are stale. */
export class Requests {
  readonly byKey = new Map<string, Tracked>()
  /** Results of global calls by key, until the status shows them. */
  readonly answers = new Map<string, MultiClusterAnswer>()
  #isFirstSight = true

  get live(): Tracked[] {
    return [...this.byKey.values()].filter(({ isSilent }) => !isSilent)
  }

  /**
   * The live requests of candidates. Readers are excluded: they have no lease duration, and may use a resource together
   * with any candidate.
   */
  get candidates(): Tracked[] {
    return this.live.filter(({ request }) => !request || request.leaseDurationMs !== undefined)
  }

  get silent(): Set<string> {
    return new Set([...this.byKey.values()].flatMap(({ key, isSilent }) => (isSilent ? [key] : [])))
  }

  /** Updates the requests from a resource. */
  update(resource: MultiClusterLease, place: { election: string; cluster: string }, nowMs: number): Noticed {
    const { spec, status } = resource
    const isFirstSight = this.#isFirstSight
    this.#isFirstSight = false
    const noticed: Noticed = { isAsked: false, isNeglected: false, isAnsweredElsewhere: false }
    for (const [key, tracked] of this.byKey) {
      if (spec.requests[key]?.id === tracked.id) continue
      noticed.isNeglected ||= tracked.request !== undefined && !tracked.isAnswered && key in spec.requests
      drop(tracked)
      this.byKey.delete(key)
      this.answers.delete(key)
    }
    for (const [key, request] of Object.entries(spec.requests).slice(0, mostKeys)) {
      const isAnswered = status.answers[key]?.id === request.id
      let tracked = this.byKey.get(key)
      if (!tracked) {
        tracked = track(key, request, place, nowMs)
        this.byKey.set(key, tracked)
        // A stale request's answer was removed from the status. That request must not be performed again.
        tracked.isSilent = isFirstSight && !isAnswered && (status.silent ?? []).includes(key)
        noticed.isAsked ||= !isFirstSight || !(isAnswered || tracked.isSilent)
        if (tracked.malformed !== undefined) this.answers.set(key, malformedAnswer(tracked))
      } else if (isAnswered && !tracked.isAnswered) {
        noticed.isAnsweredElsewhere ||= !this.answers.has(key)
      }
      if (isAnswered || tracked.isSilent) drop(tracked)
      tracked.isAnswered ||= isAnswered
      if (isAnswered) this.answers.delete(key)
    }
    return noticed
  }

  /** Marks candidates as stale when their time has come. Returns when the next one becomes stale. */
  markStale(nowMs: number): number {
    let nextMs = Infinity
    for (const tracked of this.byKey.values()) {
      if (tracked.isSilent) continue
      const atMs = tracked.seenAtMs + Math.max(silentMs, silentLeases * tracked.leaseDurationMs)
      if (nowMs < atMs) nextMs = Math.min(nextMs, atMs)
      else {
        tracked.isSilent = true
        drop(tracked)
      }
    }
    return nextMs
  }

  forget(): void {
    for (const tracked of this.byKey.values()) drop(tracked)
    this.byKey.clear()
    this.answers.clear()
    this.#isFirstSight = true
  }
}

function track(
  key: string,
  request: MultiClusterLease['spec']['requests'][string],
  place: { election: string; cluster: string },
  nowMs: number,
): Tracked {
  const read = readRequest(request, place)
  const sound = 'malformed' in read ? undefined : read
  return {
    ...newPendingCall(nowMs, sound?.timeoutMs ?? 0, sound?.leaseDurationMs),
    key,
    id: request.id,
    request: sound,
    malformed: 'malformed' in read ? read.malformed : undefined,
    leaseDurationMs: sound?.leaseDurationMs ?? usualLeaseMs,
    isSilent: false,
    isAnswered: false,
    ...(!sound && { state: 'done' as const }),
  }
}

function malformedAnswer({ id, malformed = '' }: Tracked): MultiClusterAnswer {
  return answerError(id, 'INVALID_REQUEST', `The request is invalid: ${malformed}.`)
}
