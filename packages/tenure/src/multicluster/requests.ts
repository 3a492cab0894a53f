import { microTime } from '@tenure/internal/micro-time'
import type { AcquireClaim, HeldClaim } from '../engine/lease-store.ts'
import type { MultiClusterLeaseSpec, MultiClusterRequest, RequestClaim, RequestVerb } from './resource.ts'
import type { Patch, SpecPatch } from './resources.ts'

/** The verb and the claim of a call, as data. */
export interface RequestBody {
  readonly verb: RequestVerb
  readonly claim: RequestClaim
}

/** The maximum that a resource accepts. */
const longestMs = 2 ** 31 - 1

/** Every field of a claim as null, because a merge patch keeps fields that it does not name. */
const emptyClaim: { readonly [Field in keyof Required<RequestClaim>]: null } = {
  holder: null,
  attempt: null,
  leaseDurationMs: null,
  afterTerm: null,
  expiredVersion: null,
  metadata: null,
  term: null,
  version: null,
  carry: null,
  mark: null,
}

/** Converts an acquire to data. */
export function acquireRequest(claim: AcquireClaim): RequestBody {
  const { holder, attempt, leaseDurationMs, afterTerm, expiredVersion, metadata, mark } = claim
  const fields = { holder, attempt, leaseDurationMs, afterTerm, metadata: JSON.stringify(metadata), mark }
  // An empty version is meaningful: the record does not exist.
  return { verb: 'acquire', claim: { ...fields, ...(expiredVersion !== undefined && { expiredVersion }) } }
}

/** Converts a renewal or a release to data. */
export function heldRequest(verb: 'renew' | 'release', claim: HeldClaim): RequestBody {
  const { holder, attempt, leaseDurationMs, term, version, carry, mark } = claim
  const fields = { holder, attempt, leaseDurationMs, term, version, mark }
  return { verb, claim: { ...fields, ...(verb === 'renew' && carry !== undefined && { carry }) } }
}

/** Creates the request of one call. Its answer must have the same id. */
export function requestOf(
  { verb, claim }: RequestBody,
  { id, wallMs, timeoutMs }: { readonly id: string; readonly wallMs: number; readonly timeoutMs: number },
): MultiClusterRequest {
  const set = Object.fromEntries(Object.entries(claim).filter(([, value]) => value !== undefined))
  return {
    id,
    verb,
    renewTime: microTime(wallMs),
    timeoutMs: Math.min(longestMs, Math.max(1, Math.floor(timeoutMs))),
    claim: { ...set, holder: claim.holder },
  }
}

/** The spec of a new resource with only this request. */
export function specWith(key: string, request: MultiClusterRequest): MultiClusterLeaseSpec {
  const { leaseDurationSeconds, ...heartbeat } = heartbeatOf(request)
  const duration = leaseDurationSeconds === null ? {} : { leaseDurationSeconds }
  return { ...(isCandidates(request) && { ...heartbeat, ...duration }), requests: { [key]: request } }
}

/** Replaces the request of one key. Of all other keys, it only removes those in `silent`, which are abandoned. */
export function patchWith(key: string, request: MultiClusterRequest, silent: readonly string[]): SpecPatch {
  const asked: Patch<MultiClusterRequest> = { ...request, claim: { ...emptyClaim, ...request.claim } }
  const removed = Object.fromEntries(silent.map((name) => [name, null]))
  // The newest heartbeat may belong to a candidate that is removed here.
  const heartbeat = isCandidates(request) || silent.length > 0 ? heartbeatOf(request) : {}
  return { ...heartbeat, requests: { ...removed, [key]: asked } }
}

/**
 * Whether the request is from a candidate. A reader has no lease duration and must not overwrite a candidate's
 * heartbeat.
 */
function isCandidates({ claim }: MultiClusterRequest): boolean {
  return claim.leaseDurationMs !== undefined
}

/**
 * The heartbeat: the three fields that a spec-only candidate writes. Every candidate's request includes them, because a
 * heartbeat without a matching request is attributed to a spec-only candidate.
 */
function heartbeatOf({ claim, renewTime }: MultiClusterRequest) {
  const { holder: holderIdentity, leaseDurationMs } = claim
  const leaseDurationSeconds = leaseDurationMs === undefined ? null : Math.ceil(leaseDurationMs / 1000)
  return { holderIdentity, leaseDurationSeconds, renewTime }
}
