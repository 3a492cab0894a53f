import {
  answerError,
  validateRequest,
  type MultiClusterAnswer,
  type MultiClusterLease,
  type ValidRequest,
} from 'tenure/internal/multicluster'
import { cancelCall, newPendingCall, type PendingRequest } from '../calls/pending-call.ts'

/** A candidate's latest request. */
export interface TrackedRequest extends PendingRequest {
  readonly key: string
  readonly id: string
  readonly request: ValidRequest | undefined
  readonly malformed: string | undefined
  readonly leaseDurationMs: number
  /** Whether the candidate has been stale for a long time, meaning that it has made no other request. */
  isStale: boolean
  /** Whether the status has shown the answer. */
  isAnswered: boolean
}

/** The changes since a resource was last observed. */
export interface RequestChanges {
  /** Whether there is a new request. */
  isAsked: boolean
  /** Whether a candidate made another request before the previous one was answered. */
  isNeglected: boolean
  /** Whether another relay has answered a request. */
  isAnsweredElsewhere: boolean
}

/** The maximum number of requests that the schema allows in one resource. */
const mostKeys = 64
const usualLeaseMs = 15_000
/** A candidate becomes stale if it makes no request for this many lease durations, and for at least `silentMs`. */
const silentLeases = 4
const silentMs = 60_000

/** The requests of one resource: which requests there are, which were answered, and which candidates are stale. */
export class TrackedRequests {
  readonly byKey = new Map<string, TrackedRequest>()
  /** Results of global calls by key, until the status shows them. */
  readonly answers = new Map<string, MultiClusterAnswer>()
  #isFirstSight = true

  get live(): TrackedRequest[] {
    return [...this.byKey.values()].filter(({ isStale: isSilent }) => !isSilent)
  }

  /**
   * Live requests from candidates. Readers are excluded: they have no lease duration, and may use a resource together
   * with any candidate.
   */
  get candidates(): TrackedRequest[] {
    return this.live.filter(({ request }) => !request || request.leaseDurationMs !== undefined)
  }

  /** Whether a call to the global store is in flight. */
  get isCalling(): boolean {
    for (const { state } of this.byKey.values()) if (state === 'running') return true
    return false
  }

  get silent(): Set<string> {
    return new Set([...this.byKey.values()].flatMap(({ key, isStale: isSilent }) => (isSilent ? [key] : [])))
  }

  /** Updates the requests from a resource. */
  update(resource: MultiClusterLease, place: { election: string; cluster: string }, nowMs: number): RequestChanges {
    const { spec, status } = resource
    const isFirstSight = this.#isFirstSight
    this.#isFirstSight = false
    const noticed: RequestChanges = { isAsked: false, isNeglected: false, isAnsweredElsewhere: false }
    for (const [key, tracked] of this.byKey) {
      if (spec.requests[key]?.id === tracked.id) continue
      noticed.isNeglected ||= tracked.request !== undefined && !tracked.isAnswered && key in spec.requests
      cancelCall(tracked)
      this.byKey.delete(key)
      this.answers.delete(key)
    }
    for (const [key, request] of Object.entries(spec.requests).slice(0, mostKeys)) {
      const isAnswered = status.answers[key]?.id === request.id
      let tracked = this.byKey.get(key)
      if (!tracked) {
        tracked = track(key, request, place, nowMs)
        this.byKey.set(key, tracked)
        // The answer to a stale request was removed from the status. That request must not be performed again.
        tracked.isStale = isFirstSight && !isAnswered && (status.silent ?? []).includes(key)
        noticed.isAsked ||= !isFirstSight || !(isAnswered || tracked.isStale)
        if (tracked.malformed !== undefined) this.answers.set(key, malformedAnswer(tracked))
      } else if (isAnswered && !tracked.isAnswered) {
        noticed.isAnsweredElsewhere ||= !this.answers.has(key)
      }
      if (isAnswered || tracked.isStale) cancelCall(tracked)
      tracked.isAnswered ||= isAnswered
      if (isAnswered) this.answers.delete(key)
    }
    return noticed
  }

  /** Marks candidates as stale when their time is up. Returns when the next one becomes stale. */
  markStale(nowMs: number): number {
    let nextMs = Infinity
    for (const tracked of this.byKey.values()) {
      if (tracked.isStale) continue
      const atMs = tracked.seenAtMs + Math.max(silentMs, silentLeases * tracked.leaseDurationMs)
      if (nowMs < atMs) nextMs = Math.min(nextMs, atMs)
      else {
        tracked.isStale = true
        cancelCall(tracked)
      }
    }
    return nextMs
  }

  forget(): void {
    for (const tracked of this.byKey.values()) cancelCall(tracked)
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
): TrackedRequest {
  const read = validateRequest(request, place)
  const sound = 'malformed' in read ? undefined : read
  return {
    ...newPendingCall(nowMs, sound?.timeoutMs ?? 0, sound?.leaseDurationMs),
    key,
    id: request.id,
    request: sound,
    malformed: 'malformed' in read ? read.malformed : undefined,
    leaseDurationMs: sound?.leaseDurationMs ?? usualLeaseMs,
    isStale: false,
    isAnswered: false,
    ...(!sound && { state: 'done' as const }),
  }
}

function malformedAnswer({ id, malformed = '' }: TrackedRequest): MultiClusterAnswer {
  return answerError(id, 'INVALID_REQUEST', `The request is invalid: ${malformed}.`)
}
