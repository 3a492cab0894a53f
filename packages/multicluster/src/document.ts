/**
 * Candidates that know only the document: they write who they are and when, and read who leads. Their attempts are made
 * here, and carry the uid of the resource: what another resource of the same name was granted is not theirs.
 *
 * They count their lease from the moment at which they read the confirmation, so their global lease is twice as long.
 */
import { createHash } from 'node:crypto'
import type { HeldClaim, LeaseRecord, Outcome } from 'tenure'
import type { MultiClusterLease, MultiClusterLeaseSpec, MultiClusterRequest } from 'tenure/stores/multicluster'
import { globalHolderOf, isHeldIn, isIdentity } from './names.ts'
import { expiredVersionOf, type ElectionSights } from './sights.ts'
import type { GlobalCall } from './request.ts'

/** A sign of life: a pair of identity and time that was not there before. */
export interface Heartbeat {
  /** Empty: it gives back what the resource holds. */
  readonly identity: string
  readonly renewTime: string
  /** In which it was first seen. */
  readonly generation: number
  /** As the candidate has it: half of the global one. */
  readonly leaseDurationMs: number
}

const longestSeconds = Math.floor((2 ** 31 - 1) / 2000)

/** The pair that distinguishes one heartbeat from another; undefined if there was none yet. */
export function pairOf({ holderIdentity, renewTime }: MultiClusterLeaseSpec): string | undefined {
  return holderIdentity || renewTime ? JSON.stringify([holderIdentity ?? '', renewTime ?? '']) : undefined
}

/** Whether the newest heartbeat came with a request. */
function isOfRequest({ holderIdentity, renewTime, requests }: MultiClusterLeaseSpec): boolean {
  return Object.values(requests).some((request) => hasHeartbeat(request, holderIdentity, renewTime))
}

/** Whether the newest heartbeat is of a candidate that knows only the document. */
export function hasOwnHeartbeat(spec: MultiClusterLeaseSpec): boolean {
  return pairOf(spec) !== undefined && !isOfRequest(spec)
}

function hasHeartbeat(request: MultiClusterRequest, holderIdentity: unknown, renewTime: unknown): boolean {
  return request.renewTime === renewTime && request.claim?.holder === holderIdentity
}

/** The heartbeat as it is in a resource, or what is wrong with it. */
export function readHeartbeat(
  { spec, generation }: MultiClusterLease,
  cluster: string,
): Heartbeat | { readonly malformed: string } {
  const { holderIdentity = '', renewTime = '', leaseDurationSeconds } = spec
  // Who gives back need not say for how long it held.
  const seconds = holderIdentity === '' ? (leaseDurationSeconds ?? 1) : leaseDurationSeconds
  if (holderIdentity !== '' && !isIdentity(cluster, holderIdentity)) {
    return { malformed: '"holderIdentity" must be an identity without "/" and control characters' }
  }
  if (!Number.isSafeInteger(seconds) || (seconds as number) < 1 || (seconds as number) > longestSeconds) {
    return { malformed: `"leaseDurationSeconds" must be a whole number of 1 to ${longestSeconds}` }
  }
  return { identity: holderIdentity, renewTime, generation, leaseDurationMs: (seconds as number) * 1000 }
}

/** What became of a heartbeat. */
export type Served =
  /** It holds the lease. Counted from `sentAtMs`. */
  | { readonly result: 'held'; readonly term: number; readonly sentAtMs: number; readonly sentAtBootMs: number }
  /** Somebody else does, or it gave back what it had. */
  | { readonly result: 'answered' }
  /** Another candidate of the same resource holds it, or nothing is known: nobody must read this as a confirmation. */
  | { readonly result: 'unheard' }

/** What serving takes. */
export interface Scene {
  readonly uid: string
  readonly cluster: string
  readonly election: string
  /** Whether the store judges for itself that a lease ran out. */
  readonly ownClock: boolean
  seen(): ElectionSights
  nowMs(): number
  bootMs(): number
  mark(): string
  /** Calls the global store. What it answers was seen before this returns. */
  call(call: GlobalCall): Promise<Outcome | undefined>
}

const mostSteps = 4

/** Renews what the candidate holds, or asks for it, or gives it back. */
export async function serveHeartbeat(heartbeat: Heartbeat, scene: Scene, readFirst: boolean): Promise<Served> {
  // Also when a call before this one may have been carried out: a grant that is older than this must be renewed.
  if (readFirst || !scene.seen().sight) await scene.call({ verb: 'read' })
  let afterTerm = 0
  let refusedVersion: string | undefined
  for (let step = 0; step < mostSteps; step += 1) {
    const nowMs = scene.nowMs()
    const sentAtBootMs = scene.bootMs()
    const seen = scene.seen()
    const record = seen.sight?.record
    const call = nextCall(heartbeat, scene, { afterTerm: Math.max(afterTerm, seen.highestTerm), refusedVersion, nowMs })
    if (!call) return { result: 'answered' }
    const outcome = await scene.call(call)
    if (!outcome) return { result: 'unheard' }
    if (outcome.ok) {
      return call.verb === 'release'
        ? { result: 'answered' }
        : { result: 'held', term: outcome.record.term, sentAtMs: nowMs, sentAtBootMs }
    }
    afterTerm = Math.max(afterTerm, outcome.highestTerm)
    if (call.verb !== 'acquire') refusedVersion = record?.version
    else if (!outcome.record) return { result: 'unheard' }
    else if (!isOpen(outcome.record, heartbeat, scene)) {
      return { result: isOfResource(outcome.record, scene) ? 'unheard' : 'answered' }
    }
  }
  return { result: 'unheard' }
}

/** After a refusal: whether another call could be granted. */
function isOpen(record: LeaseRecord, heartbeat: Heartbeat, scene: Scene): boolean {
  const hasRunOut = !scene.ownClock && expiredVersionOf(scene.seen(), scene.nowMs()) === record.version
  return record.released || hasRunOut || isTheirs(record, heartbeat, scene)
}

function nextCall(
  heartbeat: Heartbeat,
  scene: Scene,
  at: { readonly afterTerm: number; readonly refusedVersion: string | undefined; readonly nowMs: number },
): GlobalCall | undefined {
  const { uid, cluster, election } = scene
  const { identity } = heartbeat
  const seen = scene.seen()
  const record = seen.sight?.record
  const leaseDurationMs = 2 * heartbeat.leaseDurationMs
  if (identity === '') {
    const isHeld = record && !record.released && isOfResource(record, scene) && record.version !== at.refusedVersion
    return isHeld ? { verb: 'release', claim: heldClaim(record, record.leaseDurationMs, scene) } : undefined
  }
  const expiredVersion = scene.ownClock ? undefined : expiredVersionOf(seen, at.nowMs)
  const isCurrent = record && expiredVersion === undefined && record.version !== at.refusedVersion
  if (isCurrent && isTheirs(record, heartbeat, scene)) {
    return { verb: 'renew', claim: heldClaim(record, leaseDurationMs, scene) }
  }
  const claim = {
    election,
    holder: globalHolderOf(cluster, identity),
    attempt: attemptOf(uid, heartbeat),
    leaseDurationMs,
    afterTerm: at.afterTerm,
    ...(expiredVersion !== undefined && { expiredVersion }),
    metadata: {},
    mark: scene.mark(),
  }
  return { verb: 'acquire', claim }
}

/**
 * Never by name alone: a process of that name may have got it by another resource, and still lead. Nor below a term that
 * was seen: a store that lost what it had must not have one term believed twice.
 */
function isTheirs(record: LeaseRecord, { identity }: Heartbeat, scene: Scene): boolean {
  const isCurrent = !record.released && record.term >= scene.seen().highestTerm
  return isCurrent && isOfResource(record, scene) && record.holder === globalHolderOf(scene.cluster, identity)
}

function isOfResource({ attempt, holder }: LeaseRecord, { uid, cluster }: Scene): boolean {
  return attempt.startsWith(`document:${uid}:`) && isHeldIn(cluster, holder)
}

/** The same for everybody who serves this heartbeat: calls of two controllers are one candidacy. */
function attemptOf(uid: string, { identity, generation, renewTime }: Heartbeat): string {
  const text = JSON.stringify([identity, generation, renewTime])
  return `document:${uid}:${createHash('sha256').update(text).digest('base64url').slice(0, 22)}`
}

function heldClaim({ holder, attempt, term, version }: LeaseRecord, leaseDurationMs: number, scene: Scene): HeldClaim {
  return { election: scene.election, holder, attempt, term, version, leaseDurationMs, mark: scene.mark() }
}
