import { microTime } from '@tenure/internal/micro-time'
import type { AcquireClaim, HeldClaim } from '../lease-store.ts'
import type { MultiClusterLeaseSpec, MultiClusterRequest, RequestClaim, RequestVerb } from './resource.ts'
import type { Patch, SpecPatch } from './resources.ts'

/** What a call asks for, as data. */
export interface Asked {
  readonly verb: RequestVerb
  readonly claim: RequestClaim
}

/** As much as a resource takes. */
const longestMs = 2 ** 31 - 1

/** Everything that a claim can have: a merge patch keeps what it does not name. */
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

/** An acquire as data. */
export function askToAcquire(claim: AcquireClaim): Asked {
  const { holder, attempt, leaseDurationMs, afterTerm, expiredVersion, metadata, mark } = claim
  const fields = { holder, attempt, leaseDurationMs, afterTerm, metadata: JSON.stringify(metadata), mark }
  // An empty version means something: that the record is not there.
  return { verb: 'acquire', claim: { ...fields, ...(expiredVersion !== undefined && { expiredVersion }) } }
}

/** A renewal or a release as data. */
export function askHeld(verb: 'renew' | 'release', claim: HeldClaim): Asked {
  const { holder, attempt, leaseDurationMs, term, version, carry, mark } = claim
  const fields = { holder, attempt, leaseDurationMs, term, version, mark }
  return { verb, claim: { ...fields, ...(verb === 'renew' && carry !== undefined && { carry }) } }
}

/** One call, with the name that its answer must have. */
export function requestOf(
  { verb, claim }: Asked,
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

/** A resource with this request alone. */
export function specWith(key: string, request: MultiClusterRequest): MultiClusterLeaseSpec {
  const { leaseDurationSeconds, ...heartbeat } = heartbeatOf(request)
  const duration = leaseDurationSeconds === null ? {} : { leaseDurationSeconds }
  return { ...(isCandidates(request) && { ...heartbeat, ...duration }), requests: { [key]: request } }
}

/** Replaces what one key asks for, and nothing of any other but the keys in `silent`, which nobody uses any more. */
export function patchWith(key: string, request: MultiClusterRequest, silent: readonly string[]): SpecPatch {
  const asked: Patch<MultiClusterRequest> = { ...request, claim: { ...emptyClaim, ...request.claim } }
  const removed = Object.fromEntries(silent.map((name) => [name, null]))
  // The newest heartbeat may be of one that is removed here.
  const heartbeat = isCandidates(request) || silent.length > 0 ? heartbeatOf(request) : {}
  return { ...heartbeat, requests: { ...removed, [key]: asked } }
}

/** Somebody who only looks has no lease in mind, and must not overwrite the heartbeat of a candidate. */
function isCandidates({ claim }: MultiClusterRequest): boolean {
  return claim.leaseDurationMs !== undefined
}

/**
 * The document's three fields. Every candidate's request brings them: a heartbeat that belongs to no request is taken for
 * that of a candidate that knows nothing else.
 */
function heartbeatOf({ claim, renewTime }: MultiClusterRequest) {
  const { holder: holderIdentity, leaseDurationMs } = claim
  const leaseDurationSeconds = leaseDurationMs === undefined ? null : Math.ceil(leaseDurationMs / 1000)
  return { holderIdentity, leaseDurationSeconds, renewTime }
}
