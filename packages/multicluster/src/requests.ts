import type { MultiClusterAnswer, MultiClusterLease } from 'tenure/stores/multicluster'
import { answerError } from './answer.ts'
import { drop, newErrand, type Errand } from './errand.ts'
import { readRequest, type SoundRequest } from './request.ts'

/** One candidate's newest request. */
export interface Tracked extends Errand {
  readonly key: string
  readonly id: string
  readonly request: SoundRequest | undefined
  readonly malformed: string | undefined
  readonly leaseDurationMs: number
  /** Its candidate has asked for nothing else for long. */
  isSilent: boolean
  /** The status has shown its answer. */
  isAnswered: boolean
}

/** What a resource shows that was not known. */
export interface Noticed {
  /** Somebody asked for something new. */
  isAsked: boolean
  /** Somebody asked again without having got an answer. */
  isNeglected: boolean
  /** Another relay has answered. */
  isAnsweredElsewhere: boolean
}

/** As many as the schema allows. */
const mostKeys = 64
const usualLeaseMs = 15_000
/** A candidate that asks for nothing for this many leases, and this long at least, is silent. */
const silentLeases = 4
const silentMs = 60_000

/** The requests of one resource: what is asked, what was answered, and who has fallen silent. */
export class Requests {
  readonly byKey = new Map<string, Tracked>()
  /** What global calls gave, by key, until the status shows it. */
  readonly answers = new Map<string, MultiClusterAnswer>()
  #isFirstSight = true

  get live(): Tracked[] {
    return [...this.byKey.values()].filter(({ isSilent }) => !isSilent)
  }

  /** Without those who only look: they have no lease in mind, and share a resource with anybody. */
  get candidates(): Tracked[] {
    return this.live.filter(({ request }) => !request || request.leaseDurationMs !== undefined)
  }

  get silent(): Set<string> {
    return new Set([...this.byKey.values()].flatMap(({ key, isSilent }) => (isSilent ? [key] : [])))
  }

  /** Takes note of what a resource asks for. */
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
        // Its answer was removed when it had been silent for long: it is not asked for again.
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

  /** Lets candidates fall silent whose time has come; says when the next one's comes. */
  hush(nowMs: number): number {
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
    ...newErrand(nowMs, sound?.timeoutMs ?? 0, sound?.leaseDurationMs),
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
  return answerError(id, 'INVALID_REQUEST', `The controller cannot carry this request out: ${malformed}.`)
}
