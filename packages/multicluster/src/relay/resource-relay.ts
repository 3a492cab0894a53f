/** The relay of one resource: reads its requests, calls the global store, and writes the answers. */
import { messageOf } from '@tenure/internal/message'
import type { Clock, Outcome, Timer } from 'tenure'
import {
  answerError,
  answerFound,
  answerOutcome,
  globalRecord,
  type GlobalCall,
  type MultiClusterLease,
  type ObservedVersions,
  type ResourceVersion,
  type StatusPatch,
  type ValidRequest,
} from 'tenure/internal/multicluster'
import type { Assessment, Assessments } from '../status/conditions.ts'
import { hasOwnHeartbeat, isFreeToAsk, serveHeartbeat, type ServingMoment } from './spec-only-candidate.ts'
import { cancelCall, dueMs, putOff, tryTimeoutMs, standbyDelayMs, type PendingRequest } from '../calls/pending-call.ts'
import { callGlobal, isDefinite, isGivenUp, type GlobalAnswer } from '../calls/global-call.ts'
import { Heartbeats, type TrackedHeartbeat } from './spec-only-heartbeats.ts'
import { leadershipChange } from '../status/leadership-change.ts'
import { globalElectionOf } from '../calls/global-names.ts'
import { askedAgain, relayedClaim, retryAfterMs, shownBy } from '../calls/relayed-acquire.ts'
import { TrackedRequests, type TrackedRequest } from './tracked-requests.ts'
import { report, type SharedRelay } from '../calls/relay-context.ts'
import { VersionObserver } from '../calls/version-observer.ts'
import { statusPatchFor, type RelayState } from '../status/status-patch.ts'
import { StatusWriter } from '../status/status-writer.ts'

/** A candidate that has made no request for this many lease durations no longer counts as alive. */
const aliveLeases = 4
const usualLeaseMs = 15_000
const writeMs = 5_000
/**
 * If the primary controller disappears, another one takes its place after this time, which is the duration of its
 * Lease.
 */
const standInMs = 15_000
/**
 * The status reports the global store as unhealthy after this many failures in a row. A single failure may be a
 * coincidence.
 */
const unhealthyFailures = 2
/** The wait after an unexpected error. Such an error must not permanently stop this relay or any other relay. */
const afterMistakeMs = 5_000

export class ResourceRelay {
  readonly #shared: SharedRelay
  readonly #election: string
  readonly #requests = new TrackedRequests()
  readonly #heartbeats = new Heartbeats()
  readonly #versions: VersionObserver
  readonly #writer: StatusWriter
  #resource: MultiClusterLease | undefined
  #askedAtMs: number
  /** Whether this relay has seen a request from a candidate, or has waited long enough for one. */
  #knowsCandidates = false
  #failures = 0
  #failure: unknown
  #answered = false
  #quietSinceMs: number | undefined
  /** Whether something has happened during the write that is in flight. */
  #isChanged = false
  /** Until this time, this relay does not wait for the primary relay to answer first. */
  #standsInUntilMs = -Infinity
  #timer: Timer | undefined
  #timerAtMs = Infinity
  #stopped = false
  #advancing = false

  constructor(shared: SharedRelay, resource: MultiClusterLease) {
    this.#shared = shared
    this.#election = globalElectionOf(resource)
    this.#askedAtMs = shared.clock.monotonicMs()
    const { namespace, name } = resource
    this.#versions = new VersionObserver(shared, { namespace, name, election: this.#election }, () => this.#advance())
    this.#writer = new StatusWriter(shared, {
      current: () => this.#resource,
      judge: (current) => this.#judge(current),
      boundMs: () => Math.min(writeMs, Math.max(1, this.#heartbeats.leftMs(this.#now()))),
      adopt: (found, isCurrent) => this.#adopt(found, isCurrent),
      lose: () => this.#lose(),
      onWritten: (before, after) => this.#reportLeadership(before, after),
      onIdle: () => this.#isChanged && this.#advance(),
    })
    this.see(resource, true)
  }

  /** The uid of the known resource. Undefined if it no longer exists. */
  get uid(): string | undefined {
    return this.#resource?.uid
  }

  /** Whether the relay has seen exactly this state of the resource last. */
  isAt(version: ResourceVersion): boolean {
    return isSameVersion(this.#resource, version)
  }

  /** Updates the relay from a read (`isCurrent`) or from an event, which may be older than what is already known. */
  see(resource: MultiClusterLease, isCurrent: boolean): void {
    if (this.#stopped) return
    const before = this.#resource
    // Each status that this relay writes is shown twice: by the answer to the write and by the watch. After a restored
    // backup a version may recur, but then everything is read again.
    if (!isCurrent && isSameVersion(before, resource)) return
    const isOther = before !== undefined && before.uid !== resource.uid
    const isOlder = before !== undefined && !isOther && resource.generation < before.generation
    if (isOlder && !isCurrent) return
    // This is another resource with the same name, or a resource restored from a backup, whose generations repeat.
    if (isOther || isOlder) this.#forget()
    this.#resource = resource
    const nowMs = this.#shared.clock.monotonicMs()
    const place = { election: this.#election, cluster: this.#shared.cluster }
    const { record, term, leaseDurationSeconds = 0 } = resource.status
    // Another relay of this cluster has written this status.
    if (record) {
      if (!this.#versions.isKnown(record, term)) this.#versions.noteEvent(globalRecord(record, place), term)
    } else if (term !== undefined) this.#versions.noteDeleted(term, leaseDurationSeconds * 1_000)
    const { isAsked, isNeglected, isAnsweredElsewhere } = this.#requests.update(resource, place, nowMs)
    if (isNeglected) this.#standIn(nowMs)
    if (isAnsweredElsewhere) this.#standsInUntilMs = -Infinity
    const isBeat = this.#heartbeats.update(resource, place.cluster, this.#requests.candidates.length > 0, nowMs)
    if (isAsked || isBeat) {
      this.#askedAtMs = nowMs
      this.#knowsCandidates = true
    }
    this.#advance()
  }

  /** Takes a state that the writer has read or written. The writer itself writes what is due in that state. */
  #adopt(found: MultiClusterLease, isCurrent: boolean): void {
    const isChanged = this.#isChanged
    this.see(found, isCurrent)
    this.#isChanged = isChanged
  }

  stop(): void {
    this.#stopped = true
    this.#forget()
    this.#versions.stop()
    this.#writer.stop()
    this.#timer?.cancel()
    this.#resource = undefined
  }

  #forget(): void {
    this.#requests.forget()
    this.#heartbeats.forget()
    this.#quietSinceMs = undefined
  }

  /** Forgets a resource that no longer exists. The watch will report the deletion, or show a new resource. */
  #lose(): void {
    this.#forget()
    this.#resource = undefined
  }

  /** Performs everything that is due. All such decisions are made here, so that none is forgotten. */
  #advance(): void {
    if (this.#stopped || this.#advancing || !this.#resource) return
    this.#advancing = true
    const nowMs = this.#shared.clock.monotonicMs()
    let wakeMs = nowMs + afterMistakeMs
    try {
      wakeMs = this.#doWhatIsDue(nowMs)
    } catch (error) {
      report(() => this.#shared.observer.onError?.(error, 'serving a resource'))
    } finally {
      this.#advancing = false
    }
    this.#wakeAt(wakeMs, nowMs)
  }

  /** Returns when to run again. */
  #doWhatIsDue(nowMs: number): number {
    let wakeMs = this.#requests.markStale(nowMs)
    for (const tracked of this.#requests.byKey.values()) {
      wakeMs = Math.min(
        wakeMs,
        this.#run(tracked, nowMs, () => this.#carryOut(tracked)),
      )
    }
    // A confirmation that would arrive too late is discarded, and its heartbeat is served again.
    const now = this.#now()
    if (this.#heartbeats.heard(now)) wakeMs = Math.min(wakeMs, nowMs + this.#heartbeats.leftMs(now))
    if (isFreeToAsk({ ownClock: this.#shared.store.expiry === 'own-clock' }, now)) this.#heartbeats.serveAgain(nowMs)
    const { current } = this.#heartbeats
    if (current) {
      wakeMs = Math.min(
        wakeMs,
        this.#run(current, nowMs, () => this.#serve(current)),
      )
    }
    const aliveUntilMs = this.#askedAtMs + aliveLeases * this.#leaseMs()
    if (nowMs >= aliveUntilMs) this.#knowsCandidates = true
    else wakeMs = Math.min(wakeMs, aliveUntilMs)
    wakeMs = Math.min(wakeMs, this.#versions.advance(nowMs < aliveUntilMs ? this.#leaseMs() : undefined))
    return Math.min(wakeMs, this.#writeIfDue(nowMs))
  }

  #wakeAt(atMs: number, nowMs: number): void {
    if (this.#timer && this.#timerAtMs === atMs) return
    this.#timer?.cancel()
    this.#timer = undefined
    this.#timerAtMs = atMs
    if (atMs === Infinity) return
    this.#timer = this.#shared.clock.setTimer(Math.max(1, atMs - nowMs), () => {
      this.#timer = undefined
      this.#advance()
    })
  }

  #leaseMs(): number {
    let longestMs = this.#heartbeats.current?.heartbeat.leaseDurationMs ?? 0
    for (const { isStale, leaseDurationMs } of this.#requests.byKey.values()) {
      if (!isStale) longestMs = Math.max(longestMs, leaseDurationMs)
    }
    return longestMs || usualLeaseMs
  }

  /** Starts a pending call if it is due. Otherwise returns when it is due. */
  #run(errand: PendingRequest, nowMs: number, start: () => Promise<void>): number {
    if (errand.state === 'done') return Infinity
    if (nowMs >= errand.endsAtMs) {
      // The outcome remains unknown, and the candidate has stopped waiting. The call may still be in the queue.
      cancelCall(errand)
      return Infinity
    }
    if (errand.state === 'running') return errand.endsAtMs
    const atMs = dueMs(errand, this.#answersAtOnce(nowMs))
    if (nowMs < atMs) return Math.min(atMs, errand.endsAtMs)
    this.#standIn(nowMs)
    errand.state = 'running'
    errand.controller = new AbortController()
    void start().then(() => this.#advance())
    return Infinity
  }

  #answersAtOnce(nowMs: number): boolean {
    return this.#shared.isFirst() || nowMs < this.#standsInUntilMs
  }

  /**
   * Makes this relay answer at once for a while, because the primary relay left a candidate waiting. A leader cannot
   * afford to wait for the primary relay again at every try.
   */
  #standIn(nowMs: number): void {
    if (!this.#answersAtOnce(nowMs)) this.#standsInUntilMs = nowMs + standInMs
  }

  async #carryOut(tracked: TrackedRequest): Promise<void> {
    const { request, id, key } = tracked
    if (!request) return
    const { cluster } = this.#shared
    try {
      const answer = await this.#ask(request, tracked)
      if (tracked.state !== 'running') return
      tracked.state = 'done'
      const outcome = answer.outcome
        ? answerOutcome(id, answer.outcome, { cluster, retryAfterMs: this.#retryAfterMs(answer.outcome) })
        : answerFound(id, answer.found, cluster)
      this.#requests.answers.set(key, outcome)
    } catch (error) {
      if (tracked.state !== 'running') return
      if (!isDefinite(error)) return this.#failed(tracked, error)
      tracked.state = 'done'
      this.#requests.answers.set(key, answerError(id, error.code, error.message))
    }
  }

  /** Forwards a call unchanged, but adds to an acquire the version that this relay has watched expire. */
  async #ask({ call, leaseDurationMs }: ValidRequest, tracked: TrackedRequest): Promise<GlobalAnswer> {
    if (call.verb !== 'acquire' || this.#shared.store.expiry === 'own-clock') {
      return this.#call(call, tracked, leaseDurationMs)
    }
    const claim = relayedClaim(this.#versions.seen, call.claim, this.#shared.clock.monotonicMs())
    const answer = await this.#call({ ...call, claim }, tracked, leaseDurationMs)
    const again = answer.outcome && askedAgain(call.claim, claim, answer.outcome)
    return again ? this.#call({ ...call, claim: again }, tracked, leaseDurationMs) : answer
  }

  #retryAfterMs(outcome: Outcome): number | undefined {
    if (this.#shared.store.expiry === 'own-clock') return outcome.ok ? undefined : outcome.retryAfterMs
    return retryAfterMs(this.#versions.seen, outcome, this.#shared.clock.monotonicMs())
  }

  #now(): ServingMoment {
    return new RelayMoment(this.#versions.seen, this.#shared.clock)
  }

  async #serve(tracked: TrackedHeartbeat): Promise<void> {
    const { clock, cluster, store } = this.#shared
    const uid = this.#resource?.uid ?? ''
    const scene = {
      uid,
      cluster,
      election: this.#election,
      ownClock: store.expiry === 'own-clock',
      now: () => this.#now(),
      writeId: () => clock.randomId(),
      call: async (call: GlobalCall) =>
        (await this.#call(call, tracked, 2 * tracked.heartbeat.leaseDurationMs)).outcome,
    }
    try {
      const served = await serveHeartbeat(tracked, scene, this.#shared.isFirst())
      if (tracked.state === 'running') this.#heartbeats.answered(tracked, served, this.#now())
    } catch (error) {
      if (tracked.state === 'running') this.#failed(tracked, error)
    }
  }

  async #call(call: GlobalCall, errand: PendingRequest, leaseMs: number | undefined): Promise<GlobalAnswer> {
    const { namespace, name } = this.#resource as MultiClusterLease
    const controller = errand.controller as AbortController
    const timeoutMs = tryTimeoutMs(errand, this.#shared.clock.monotonicMs())
    const answer = await callGlobal(this.#shared, { namespace, name, election: this.#election }, call, {
      controller,
      timeoutMs,
    })
    const { record, ...more } = shownBy(answer, leaseMs)
    this.#versions.noteAnswer(record, more)
    this.#answered = true
    this.#failures = 0
    return answer
  }

  #failed(errand: PendingRequest, error: unknown): void {
    if (isGivenUp(error)) return
    this.#failures += 1
    this.#failure = error
    putOff(errand, this.#shared.clock.monotonicMs(), this.#shared.clock)
  }

  /**
   * Writes the status if it is due. For a while, a status that answers no candidate is left to the primary relay. Such
   * a status also waits for answers that are in flight: a watch often shows a new leader before the acquire is
   * answered, and the answer would then have to wait for that write.
   */
  #writeIfDue(nowMs: number): number {
    this.#isChanged = this.#writer.isBusy
    if (this.#isChanged) return Infinity
    const resource = this.#resource
    const quietUntilMs = (this.#quietSinceMs ?? nowMs) + standbyDelayMs(this.#leaseMs())
    const isAnswerReady = this.#requests.answers.size > 0 || this.#heartbeats.confirmation !== undefined
    // Nothing but an answer could be due, so the patch need not even be computed.
    if (this.#requests.isCalling && !isAnswerReady && nowMs < quietUntilMs) {
      this.#quietSinceMs ??= nowMs
      return quietUntilMs
    }
    const patch = resource && this.#judge(resource)
    if (!patch) {
      this.#quietSinceMs = undefined
      return Infinity
    }
    const isAnswer = Object.values(patch.answers ?? {}).some((answer) => answer !== null)
    const isLeft = !this.#shared.isFirst() || this.#requests.isCalling
    if (!isAnswer && patch.observedGeneration === undefined && isLeft) {
      this.#quietSinceMs ??= nowMs
      if (nowMs < quietUntilMs) return quietUntilMs
    }
    this.#quietSinceMs = undefined
    this.#writer.run(patch, isAnswer)
    return Infinity
  }

  #judge(resource: MultiClusterLease): StatusPatch | undefined {
    const { cluster, clock } = this.#shared
    const nowMs = clock.monotonicMs()
    const isOfRequests = this.#requests.candidates.length > 0 || !hasOwnHeartbeat(resource.spec)
    const hasRequests = isOfRequests && this.#requests.live.length > 0
    const heard = this.#heartbeats.heard(this.#now())
    const { view } = this.#versions.seen
    const knowledge: RelayState = {
      cluster,
      answers: this.#requests.answers,
      record: view && (view.record ?? null),
      hasExpired: this.#versions.hasExpired,
      silent: this.#requests.silent,
      heard,
      candidates: hasRequests ? 'requests' : heard ? 'spec-only' : 'none',
      isMixed: this.#isMixed(nowMs),
      assessments: this.#assessments(nowMs),
      wallMs: clock.wallMs(),
    }
    return statusPatchFor(resource, knowledge)
  }

  #isMixed(nowMs: number): boolean {
    return this.#requests.candidates.length > 0 && nowMs - this.#heartbeats.mixedAtMs < aliveLeases * this.#leaseMs()
  }

  #assessments(nowMs: number): Assessments {
    const isSilent = nowMs - this.#askedAtMs >= aliveLeases * this.#leaseMs()
    return {
      Ready: this.#readyAssessment(nowMs),
      ...(this.#failures >= unhealthyFailures && { BackendHealthy: failing(this.#failure) }),
      ...(this.#failures === 0 && this.#answered && { BackendHealthy: answering }),
      ...(this.#knowsCandidates && { CandidateAlive: isSilent ? silent : alive }),
    }
  }

  #readyAssessment(nowMs: number): Assessment {
    const malformed = this.#requests.live.find((tracked) => tracked.malformed !== undefined)
    if (malformed) {
      const message = `The request of "${malformed.key}" is not carried out: ${malformed.malformed}.`
      return { status: 'False', reason: 'MalformedRequest', message }
    }
    if (this.#heartbeats.malformed !== undefined) {
      const message = `The heartbeat is not served: ${this.#heartbeats.malformed}.`
      return { status: 'False', reason: 'MalformedRequest', message }
    }
    return this.#isMixed(nowMs) ? mixed : relaying
  }

  #reportLeadership(before: MultiClusterLease, after: MultiClusterLease): void {
    const { observer, cluster } = this.#shared
    for (const change of leadershipChange(before, after, cluster)) report(() => observer.onLeadership?.(change))
  }
}

/** The present. */
class RelayMoment implements ServingMoment {
  readonly seen: ObservedVersions
  readonly nowMs: number
  readonly #clock: Clock

  constructor(seen: ObservedVersions, clock: Clock) {
    this.seen = seen
    this.nowMs = clock.monotonicMs()
    this.#clock = clock
  }

  /** Read only for spec-only candidates, because it takes several system calls. */
  get bootMs(): number {
    return this.#clock.bootMs()
  }
}

function isSameVersion(one: MultiClusterLease | undefined, other: ResourceVersion): boolean {
  if (one?.uid !== other.uid || one.generation !== other.generation) return false
  return one.resourceVersion === other.resourceVersion
}

const relaying: Assessment = {
  status: 'True',
  reason: 'Relaying',
  message: 'Requests are relayed to the global store.',
}
const mixed: Assessment = {
  status: 'False',
  reason: 'MixedCandidates',
  message:
    'Candidates that send requests and spec-only candidates share this resource. Spec-only candidates are not served: give them their own resource.',
}
const answering: Assessment = { status: 'True', reason: 'Answering', message: 'The global store answers.' }
const alive: Assessment = {
  status: 'True',
  reason: 'Asking',
  message: 'A candidate in this cluster is making requests.',
}
const silent: Assessment = {
  status: 'False',
  reason: 'Silent',
  message:
    'No candidate in this cluster has made a request for four lease durations. Nothing is renewed on its behalf.',
}

function failing(error: unknown): Assessment {
  const code = error instanceof Error && 'code' in error ? String(error.code) : 'UNAVAILABLE'
  const reason = code
    .toLowerCase()
    .replace(/(?:^|[^a-z0-9]+)([a-z0-9])/g, (_, letter: string) => letter.toUpperCase())
    .replace(/[^A-Za-z0-9]/g, '')
  // Some store clients use numbers as error codes, which the API server rejects as a reason.
  return { status: 'False', reason: /^[A-Z]/.test(reason) ? reason : 'Unavailable', message: messageOf(error) }
}
