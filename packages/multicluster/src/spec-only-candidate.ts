/**
 * Candidates that use only the plain fields of the spec. They write their identity and the time, and read who leads. The
 * relay makes their attempts, with the uid of the resource in each, so that a grant to another resource of the same name
 * does not count as theirs.
 *
 * They count their lease from when they read the confirmation, so their global lease is twice as long.
 */
import { createHash } from 'node:crypto'
import type { HeldClaim, LeaseRecord, Outcome } from 'tenure'
import type { MultiClusterLease, MultiClusterLeaseSpec, MultiClusterRequest } from 'tenure/stores/multicluster'
import { globalHolderOf, isHeldIn, isIdentity } from './names.ts'
import { expiredVersionOf, type ElectionSights } from './observed-versions.ts'
import type { GlobalCall } from './request.ts'

/** A heartbeat: a new pair of identity and time. */
export interface Heartbeat {
  /** Empty: the heartbeat releases the lease that the resource holds. */
  readonly identity: string
  readonly renewTime: string
  /** The generation in which it was first seen. */
  readonly generation: number
  /** The duration that the candidate uses: half of the global one. */
  readonly leaseDurationMs: number
}

const longestSeconds = Math.floor((2 ** 31 - 1) / 2000)

/** The pair that distinguishes one heartbeat from another. Undefined before the first one. */
export function pairOf({ holderIdentity, renewTime }: MultiClusterLeaseSpec): string | undefined {
  return holderIdentity || renewTime ? JSON.stringify([holderIdentity ?? '', renewTime ?? '']) : undefined
}

/** Whether the newest heartbeat came with a request. */
function isOfRequest({ holderIdentity, renewTime, requests }: MultiClusterLeaseSpec): boolean {
  return Object.values(requests).some((request) => hasHeartbeat(request, holderIdentity, renewTime))
}

/** Whether the newest heartbeat comes from a spec-only candidate. */
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
  /** Another candidate of the same resource holds the lease, or the outcome is unknown. Must not be read as a confirmation. */
  | { readonly result: 'unheard' }

/** Where a heartbeat is served. */
export interface Place {
  readonly uid: string
  readonly cluster: string
  readonly election: string
  /** Whether the store decides expiry on its own clock. */
  readonly ownClock: boolean
}

/** What a relay knows at one moment. */
export interface Moment {
  readonly seen: ElectionSights
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
export interface Step {
  readonly call: GlobalCall
  readonly sentAtMs: number
  readonly sentAtBootMs: number
  /** The newest version at that time. */
  readonly version: string | undefined
}

const mostSteps = 4

/** A heartbeat, and how often the relay tried to serve it. */
interface Tried {
  readonly heartbeat: Heartbeat
  readonly tries: number
}

/** Begins with a read if an earlier call may have been applied, because an older grant must be renewed. */
export function beginServing({ heartbeat, tries }: Tried, isFirst: boolean, { seen }: Moment): Serving {
  const readFirst = tries > 0 || !isFirst || !seen.sight
  return { heartbeat, readFirst, steps: 0, afterTerm: 0, refusedVersion: undefined }
}

/** The next call: it renews, acquires or releases the candidate's lease. */
export function nextStep(serving: Serving, place: Place, at: Moment, mark: string): Step | Served {
  if (serving.steps === mostSteps) return { result: 'unheard' }
  const call = serving.readFirst ? ({ verb: 'read' } as const) : nextCall(serving, place, at, mark)
  if (!call) return { result: 'answered' }
  return { call, sentAtMs: at.nowMs, sentAtBootMs: at.bootMs, version: at.seen.sight?.record?.version }
}

/** Handles an answer. The answer is already part of what `at` knows. */
export function afterStep(
  serving: Serving,
  { call, sentAtMs, sentAtBootMs, version }: Step,
  outcome: Outcome | undefined,
  place: Place,
  at: Moment,
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

/** What {@link serveHeartbeat} works with. */
export interface Scene extends Place {
  now(): Moment
  mark(): string
  /** Calls the global store, and records the answer before it returns. */
  call(call: GlobalCall): Promise<Outcome | undefined>
}

/** Serves a heartbeat step by step. `isFirst`: no other relay can have served it before. */
export async function serveHeartbeat(tried: Tried, scene: Scene, isFirst: boolean): Promise<Served> {
  let serving: Serving | Served = beginServing(tried, isFirst, scene.now())
  while (!('result' in serving)) {
    const step: Step | Served = nextStep(serving, scene, scene.now(), scene.mark())
    if ('result' in step) return step
    serving = afterStep(serving, step, await scene.call(step.call), scene, scene.now())
  }
  return serving
}

/** Whether another call could be granted after a refusal. */
function isOpen(record: LeaseRecord, heartbeat: Heartbeat, place: Place, { seen, nowMs }: Moment): boolean {
  const hasRunOut = !place.ownClock && expiredVersionOf(seen, nowMs) === record.version
  return record.released || hasRunOut || isTheirs(record, heartbeat, place, seen)
}

/** Whether the lease is free according to the observed record, so that a refused heartbeat may be granted now. */
export function isFreeToAsk({ ownClock }: Pick<Place, 'ownClock'>, { seen, nowMs }: Moment): boolean {
  if (!seen.sight?.record) return false
  return seen.sight.record.released || (!ownClock && expiredVersionOf(seen, nowMs) !== undefined)
}

function nextCall(serving: Serving, place: Place, { seen, nowMs }: Moment, mark: string): GlobalCall | undefined {
  const { heartbeat, refusedVersion } = serving
  const { uid, cluster, election } = place
  const { identity } = heartbeat
  const record = seen.sight?.record
  const leaseDurationMs = 2 * heartbeat.leaseDurationMs
  if (identity === '') {
    const isHeld = record && !record.released && isOfResource(record, place) && record.version !== refusedVersion
    return isHeld ? { verb: 'release', claim: heldClaim(record, record.leaseDurationMs, place, mark) } : undefined
  }
  const expiredVersion = place.ownClock ? undefined : expiredVersionOf(seen, nowMs)
  const isCurrent = record && expiredVersion === undefined && record.version !== refusedVersion
  if (isCurrent && isTheirs(record, heartbeat, place, seen)) {
    return { verb: 'renew', claim: heldClaim(record, leaseDurationMs, place, mark) }
  }
  const claim = {
    election,
    holder: globalHolderOf(cluster, identity),
    attempt: attemptOf(uid, heartbeat),
    leaseDurationMs,
    afterTerm: Math.max(serving.afterTerm, seen.highestTerm),
    ...(expiredVersion !== undefined && { expiredVersion }),
    metadata: {},
    mark,
  }
  return { verb: 'acquire', claim }
}

/**
 * Never by name alone: a process with that name may have acquired the lease through another resource and still lead. Nor
 * below a term that was seen: after a store lost data, two candidates must not believe in one term.
 */
function isTheirs(record: LeaseRecord, { identity }: Heartbeat, place: Place, seen: ElectionSights): boolean {
  const isCurrent = !record.released && record.term >= seen.highestTerm
  return isCurrent && isOfResource(record, place) && record.holder === globalHolderOf(place.cluster, identity)
}

function isOfResource({ attempt, holder }: LeaseRecord, { uid, cluster }: Place): boolean {
  return attempt.startsWith(`document:${uid}:`) && isHeldIn(cluster, holder)
}

/** The same for every controller that serves this heartbeat, so that the calls of two controllers are one attempt. */
export function attemptOf(uid: string, { identity, generation, renewTime }: Heartbeat): string {
  const text = JSON.stringify([identity, generation, renewTime])
  return `document:${uid}:${createHash('sha256').update(text).digest('base64url').slice(0, 22)}`
}

function heldClaim(record: LeaseRecord, leaseDurationMs: number, { election }: Place, mark: string): HeldClaim {
  const { holder, attempt, term, version } = record
  return { election, holder, attempt, term, version, leaseDurationMs, mark }
}
