/**
 * Candidates that use only the plain fields of the spec. They write their identity and the time, and read who leads.
 * The relay creates their attempts and includes the uid of the resource in each, so that a grant to another resource of
 * the same name does not count as theirs.
 *
 * They count their lease from when they read the confirmation, so their global lease is twice as long.
 */
import { createHash } from 'node:crypto'
import type { HeldClaim, LeaseRecord, Outcome } from 'tenure'
import {
  expiredVersionOf,
  globalHolderOf,
  isHeldIn,
  isIdentity,
  type GlobalCall,
  type MultiClusterLease,
  type MultiClusterLeaseSpec,
  type MultiClusterRequest,
  type ObservedVersions,
} from 'tenure/internal/multicluster'

/** A heartbeat: a new pair of identity and time. */
export interface Heartbeat {
  /** The identity of the candidate. If it is empty, the heartbeat releases the lease that the resource holds. */
  readonly identity: string
  readonly renewTime: string
  /** The generation in which the heartbeat was first seen. */
  readonly generation: number
  /** The lease duration that the candidate uses, which is half of the global one. */
  readonly leaseDurationMs: number
}

const longestSeconds = Math.floor((2 ** 31 - 1) / 2000)

/** Returns the pair that distinguishes one heartbeat from another. Undefined before the first heartbeat. */
export function pairOf({ holderIdentity, renewTime }: MultiClusterLeaseSpec): string | undefined {
  return holderIdentity || renewTime ? JSON.stringify([holderIdentity ?? '', renewTime ?? '']) : undefined
}

/** Returns whether the newest heartbeat came with a request. */
function isOfRequest({ holderIdentity, renewTime, requests }: MultiClusterLeaseSpec): boolean {
  return Object.values(requests).some((request) => hasHeartbeat(request, holderIdentity, renewTime))
}

/** Returns whether the newest heartbeat comes from a spec-only candidate. */
export function hasOwnHeartbeat(spec: MultiClusterLeaseSpec): boolean {
  return pairOf(spec) !== undefined && !isOfRequest(spec)
}

function hasHeartbeat(request: MultiClusterRequest, holderIdentity: unknown, renewTime: unknown): boolean {
  return request.renewTime === renewTime && request.claim?.holder === holderIdentity
}

/** Returns the heartbeat of a resource, or why it is malformed. */
export function readHeartbeat(
  { spec, generation }: MultiClusterLease,
  cluster: string,
): Heartbeat | { readonly malformed: string } {
  const { holderIdentity = '', renewTime = '', leaseDurationSeconds } = spec
  // A release needs no duration.
  const seconds = holderIdentity === '' ? (leaseDurationSeconds ?? 1) : leaseDurationSeconds
  if (holderIdentity !== '' && !isIdentity(cluster, holderIdentity)) {
    return { malformed: '"holderIdentity" must be an identity without "/" and control characters' }
  }
  if (!Number.isSafeInteger(seconds) || (seconds as number) < 1 || (seconds as number) > longestSeconds) {
    return { malformed: `"leaseDurationSeconds" must be a whole number of 1 to ${longestSeconds}` }
  }
  return { identity: holderIdentity, renewTime, generation, leaseDurationMs: (seconds as number) * 1000 }
}

/** The outcome of a heartbeat. */
export type Served =
  /** The candidate holds the lease, counted from `sentAtMs`. */
  | { readonly result: 'held'; readonly term: number; readonly sentAtMs: number; readonly sentAtBootMs: number }
  /** Another candidate holds the lease, or this one released it. */
  | { readonly result: 'answered' }
  /**
   * Another candidate of the same resource holds the lease, or the outcome is unknown. The candidate must not treat
   * this as a confirmation.
   */
  | { readonly result: 'unheard' }

/** The resource and cluster for which a heartbeat is served. */
export interface CandidatePlace {
  readonly uid: string
  readonly cluster: string
  readonly election: string
  /** Whether the store decides expiry on its own clock. */
  readonly ownClock: boolean
}

/** The knowledge of a relay at one moment. */
export interface ServingMoment {
  readonly seen: ObservedVersions
  readonly nowMs: number
  readonly bootMs: number
}

/** The progress of serving a heartbeat. */
export interface Serving {
  readonly heartbeat: Heartbeat
  readonly readFirst: boolean
  readonly steps: number
  readonly afterTerm: number
  readonly refusedVersion: string | undefined
}

/** A call to the global store, and when it was sent. */
export interface ServingStep {
  readonly call: GlobalCall
  readonly sentAtMs: number
  readonly sentAtBootMs: number
  /** The newest version that was known when the call was sent. */
  readonly version: string | undefined
}

const mostSteps = 4

/** A heartbeat, and how many times the relay has tried to serve it. */
interface Tried {
  readonly heartbeat: Heartbeat
  readonly tries: number
}

/** Begins with a read if an earlier call may have been applied, because an older grant must be renewed. */
export function beginServing({ heartbeat, tries }: Tried, isFirst: boolean, { seen }: ServingMoment): Serving {
  const readFirst = tries > 0 || !isFirst || !seen.view
  return { heartbeat, readFirst, steps: 0, afterTerm: 0, refusedVersion: undefined }
}

/** The next call, which renews, acquires, or releases the candidate's lease. */
export function nextStep(
  serving: Serving,
  place: CandidatePlace,
  at: ServingMoment,
  writeId: string,
): ServingStep | Served {
  if (serving.steps === mostSteps) return { result: 'unheard' }
  const call = serving.readFirst ? ({ verb: 'read' } as const) : nextCall(serving, place, at, writeId)
  if (!call) return { result: 'answered' }
  return { call, sentAtMs: at.nowMs, sentAtBootMs: at.bootMs, version: at.seen.view?.record?.version }
}

/** Handles an answer, which is already included in what `at` knows. */
export function afterStep(
  serving: Serving,
  { call, sentAtMs, sentAtBootMs, version }: ServingStep,
  outcome: Outcome | undefined,
  place: CandidatePlace,
  at: ServingMoment,
): Serving | Served {
  if (call.verb === 'read') return { ...serving, readFirst: false }
  if (!outcome) return { result: 'unheard' }
  if (outcome.ok) {
    return call.verb === 'release'
      ? { result: 'answered' }
      : { result: 'held', term: outcome.record.term, sentAtMs, sentAtBootMs }
  }
  const { steps, afterTerm, heartbeat } = serving
  const after = { ...serving, steps: steps + 1, afterTerm: Math.max(afterTerm, outcome.highestTerm) }
  if (call.verb !== 'acquire') return { ...after, refusedVersion: version }
  if (!outcome.record) return { result: 'unheard' }
  if (isOpen(outcome.record, heartbeat, place, at)) return after
  return { result: isOfResource(outcome.record, place) ? 'unheard' : 'answered' }
}

/** The parameters of {@link serveHeartbeat}. */
export interface ServingContext extends CandidatePlace {
  now(): ServingMoment
  writeId(): string
  /** Calls the global store, and records the answer before it returns. */
  call(call: GlobalCall): Promise<Outcome | undefined>
}

/** Serves a heartbeat step by step. `isFirst`: no other relay can have served it before. */
export async function serveHeartbeat(tried: Tried, scene: ServingContext, isFirst: boolean): Promise<Served> {
  let serving: Serving | Served = beginServing(tried, isFirst, scene.now())
  while (!('result' in serving)) {
    const step: ServingStep | Served = nextStep(serving, scene, scene.now(), scene.writeId())
    if ('result' in step) return step
    serving = afterStep(serving, step, await scene.call(step.call), scene, scene.now())
  }
  return serving
}

/** Returns whether another call could be granted after a refusal. */
function isOpen(
  record: LeaseRecord,
  heartbeat: Heartbeat,
  place: CandidatePlace,
  { seen, nowMs }: ServingMoment,
): boolean {
  const hasExpired = !place.ownClock && expiredVersionOf(seen, nowMs) === record.version
  return record.released || hasExpired || isTheirs(record, heartbeat, place, seen)
}

/**
 * Returns whether the lease is free according to the observed record, so that a refused heartbeat may be granted now.
 */
export function isFreeToAsk({ ownClock }: Pick<CandidatePlace, 'ownClock'>, { seen, nowMs }: ServingMoment): boolean {
  if (!seen.view?.record) return false
  return seen.view.record.released || (!ownClock && expiredVersionOf(seen, nowMs) !== undefined)
}

function nextCall(
  serving: Serving,
  place: CandidatePlace,
  { seen, nowMs }: ServingMoment,
  writeId: string,
): GlobalCall | undefined {
  const { heartbeat, refusedVersion } = serving
  const { uid, cluster, election } = place
  const { identity } = heartbeat
  const record = seen.view?.record
  const leaseDurationMs = 2 * heartbeat.leaseDurationMs
  if (identity === '') {
    const isHeld = record && !record.released && isOfResource(record, place) && record.version !== refusedVersion
    return isHeld ? { verb: 'release', claim: heldClaim(record, record.leaseDurationMs, place, writeId) } : undefined
  }
  const expiredVersion = place.ownClock ? undefined : expiredVersionOf(seen, nowMs)
  const isCurrent = record && expiredVersion === undefined && record.version !== refusedVersion
  if (isCurrent && isTheirs(record, heartbeat, place, seen)) {
    return { verb: 'renew', claim: heldClaim(record, leaseDurationMs, place, writeId) }
  }
  const claim = {
    election,
    holder: globalHolderOf(cluster, identity),
    attempt: attemptOf(uid, heartbeat),
    leaseDurationMs,
    afterTerm: Math.max(serving.afterTerm, seen.highestTerm),
    ...(expiredVersion !== undefined && { expiredVersion }),
    metadata: {},
    writeId,
  }
  return { verb: 'acquire', claim }
}

/**
 * Returns whether the lease belongs to the candidate. A name alone is not enough, because a process with that name may
 * have acquired the lease through another resource and may still lead. The term must not be below one that was already
 * seen, because two candidates must not believe in the same term after a store has lost data.
 */
function isTheirs(
  record: LeaseRecord,
  { identity }: Heartbeat,
  place: CandidatePlace,
  seen: ObservedVersions,
): boolean {
  const isCurrent = !record.released && record.term >= seen.highestTerm
  return isCurrent && isOfResource(record, place) && record.holder === globalHolderOf(place.cluster, identity)
}

function isOfResource({ attempt, holder }: LeaseRecord, { uid, cluster }: CandidatePlace): boolean {
  return attempt.startsWith(`document:${uid}:`) && isHeldIn(cluster, holder)
}

/**
 * The attempt is the same for every controller that serves this heartbeat, so the calls of two controllers are one
 * attempt.
 */
export function attemptOf(uid: string, { identity, generation, renewTime }: Heartbeat): string {
  const text = JSON.stringify([identity, generation, renewTime])
  return `document:${uid}:${createHash('sha256').update(text).digest('base64url').slice(0, 22)}`
}

function heldClaim(
  record: LeaseRecord,
  leaseDurationMs: number,
  { election }: CandidatePlace,
  writeId: string,
): HeldClaim {
  const { holder, attempt, term, version } = record
  return { election, holder, attempt, term, version, leaseDurationMs, writeId }
}
