/**
 * Writes and reads the requests from candidates. Candidates write their calls as requests. Controllers validate them,
 * limit all sizes, and set the global holder.
 */
import { microTime } from '@tenure/internal/micro-time'
import { isHarmless, isObject } from '@tenure/internal/objects'
import type { AcquireClaim, HeldClaim, Metadata } from '../../engine/lease-store.ts'
import { claimFields, emptyFields, type UncheckedFields } from './field-tables.ts'
import { globalHolderOf, globalNameOf, isIdentity } from './holder-names.ts'
import type {
  MultiClusterLeaseSpec,
  MultiClusterRequest,
  Patch,
  RequestClaim,
  RequestVerb,
  SpecPatch,
} from './resource-types.ts'

/** The maximum length that a resource accepts. */
const longestMs = 2 ** 31 - 1
const longestVersionBytes = 512
const longestIdBytes = 128
const longestTextBytes = 256
const longestMetadataBytes = 4096
const longestCheckpointBytes = 4096
const deepestMetadata = 8

/** The verb and the claim of a call, as data. */
export interface RequestBody {
  readonly verb: RequestVerb
  readonly claim: RequestClaim
}

/** Converts an acquire to data. */
export function acquireRequest(claim: AcquireClaim): RequestBody {
  const { holder, attempt, leaseDurationMs, afterTerm, expiredVersion, metadata, writeId } = claim
  const fields = { holder, attempt, leaseDurationMs, afterTerm, metadata: JSON.stringify(metadata), writeId }
  // An empty version is meaningful: the record does not exist.
  return { verb: 'acquire', claim: { ...fields, ...(expiredVersion !== undefined && { expiredVersion }) } }
}

/** Converts a renewal or a release to data. */
export function heldRequest(verb: 'renew' | 'release', claim: HeldClaim): RequestBody {
  const { holder, attempt, leaseDurationMs, term, version, checkpoint, writeId, successor } = claim
  const fields = { holder, attempt, leaseDurationMs, term, version, writeId }
  if (verb === 'release') return { verb, claim: { ...fields, ...(successor !== undefined && { successor }) } }
  return { verb, claim: { ...fields, ...(checkpoint !== undefined && { checkpoint }) } }
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

/**
 * Replaces the request of one key, and removes the keys in `silent`, which are abandoned. All other keys stay
 * unchanged.
 */
export function patchWith(key: string, request: MultiClusterRequest, silent: readonly string[]): SpecPatch {
  const asked: Patch<MultiClusterRequest> = { ...request, claim: { ...emptyFields(claimFields), ...request.claim } }
  const removed = Object.fromEntries(silent.map((name) => [name, null]))
  // The newest heartbeat may belong to a candidate that is removed here.
  const heartbeat = isCandidates(request) || silent.length > 0 ? heartbeatOf(request) : {}
  return { ...heartbeat, requests: { ...removed, [key]: asked } }
}

/**
 * Whether the request comes from a candidate. A reader has no lease duration, and must not overwrite a candidate's
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

/** One call to the global store. */
export type GlobalCall =
  | { readonly verb: 'read' }
  | { readonly verb: 'acquire'; readonly claim: AcquireClaim }
  | { readonly verb: 'renew' | 'release'; readonly claim: HeldClaim }

/** A valid request. */
export interface ValidRequest {
  readonly call: GlobalCall
  readonly timeoutMs: number
  /** Undefined for a read by a client that is not a candidate. */
  readonly leaseDurationMs: number | undefined
}

/** Why a request is invalid. */
export interface InvalidRequest {
  readonly malformed: string
}

/**
 * Validates a request. Its data is untrusted, because anybody may have written it.
 *
 * @example
 * const request = resource.spec.requests[key]
 * const valid = validateRequest(request, { election: 'jobs/report', cluster: 'east' })
 * if ('malformed' in valid) console.log(valid.malformed)
 */
export function validateRequest(
  request: MultiClusterRequest,
  { election, cluster }: { readonly election: string; readonly cluster: string },
): ValidRequest | InvalidRequest {
  try {
    const fields = asFields(request, 'the request')
    text(fields, 'id', longestIdBytes)
    const timeoutMs = duration(fields, 'timeoutMs')
    const claim = asFields(fields['claim'], 'its claim')
    const { holder } = claim
    if (!isIdentity(cluster, holder))
      throw new InvalidRequestError('"holder" must be an identity without "/" and control characters')
    const asked = { election, holder: globalHolderOf(cluster, holder) }
    const call = callOf(fields['verb'], claim, asked, cluster)
    const hasDuration = call.verb !== 'read' || isGiven(claim['leaseDurationMs'])
    return { call, timeoutMs, leaseDurationMs: hasDuration ? duration(claim, 'leaseDurationMs') : undefined }
  } catch (error) {
    if (error instanceof InvalidRequestError) return { malformed: error.message }
    throw error
  }
}

/** Describes why a request is invalid. */
class InvalidRequestError extends Error {}

function callOf(
  verb: unknown,
  claim: UncheckedFields,
  asked: { election: string; holder: string },
  cluster: string,
): GlobalCall {
  switch (verb) {
    case 'read':
      return { verb }
    case 'acquire':
      return { verb, claim: { ...asked, ...acquireFields(claim) } }
    case 'renew':
      return { verb, claim: { ...asked, ...heldFields(claim), ...checkpointField(claim) } }
    case 'release':
      return { verb, claim: { ...asked, ...heldFields(claim), ...successorField(claim, asked.holder, cluster) } }
    default:
      throw new InvalidRequestError('"verb" must be read, acquire, renew or release')
  }
}

function acquireFields(claim: UncheckedFields): Omit<AcquireClaim, 'election' | 'holder'> {
  return {
    ...commonFields(claim),
    afterTerm: term(claim, 'afterTerm'),
    // An empty version is meaningful: the record does not exist.
    ...(isGiven(claim['expiredVersion']) && { expiredVersion: text(claim, 'expiredVersion', longestVersionBytes, 0) }),
    metadata: metadata(claim['metadata']),
  }
}

function heldFields(claim: UncheckedFields): Omit<HeldClaim, 'election' | 'holder'> {
  return {
    ...commonFields(claim),
    term: term(claim, 'term'),
    version: text(claim, 'version', longestVersionBytes),
  }
}

function checkpointField(claim: UncheckedFields): Pick<HeldClaim, 'checkpoint'> {
  return isGiven(claim['checkpoint']) ? { checkpoint: text(claim, 'checkpoint', longestCheckpointBytes, 0) } : {}
}

/**
 * A name that no other candidate can have is dropped, because refusing the release would leave the lease to expire. A
 * candidate does not know the name of its cluster, so it can name itself as `cluster/identity` by mistake.
 */
function successorField(claim: UncheckedFields, holder: string, cluster: string): Pick<HeldClaim, 'successor'> {
  const successor = globalNameOf(claim['successor'], cluster)
  return successor === undefined || successor === holder ? {} : { successor }
}

function commonFields(claim: UncheckedFields) {
  return {
    attempt: text(claim, 'attempt', longestTextBytes),
    leaseDurationMs: duration(claim, 'leaseDurationMs'),
    ...(isGiven(claim['writeId']) && { writeId: text(claim, 'writeId', longestTextBytes) }),
  }
}

function asFields(value: unknown, what: string): UncheckedFields {
  if (isObject(value)) return value
  throw new InvalidRequestError(`${what} must be an object`)
}

function isGiven(value: unknown): boolean {
  return value !== undefined && value !== null
}

function text(fields: UncheckedFields, name: string, mostBytes: number, leastLength = 1): string {
  const value = fields[name]
  const isSound = typeof value === 'string' && value.length >= leastLength && value.isWellFormed()
  if (isSound && Buffer.byteLength(value) <= mostBytes) return value
  throw new InvalidRequestError(`"${name}" must be text of ${leastLength} to ${mostBytes} bytes`)
}

function duration(fields: UncheckedFields, name: string): number {
  const value = fields[name]
  if (typeof value === 'number' && value >= 1 && value <= longestMs) return value
  throw new InvalidRequestError(`"${name}" must be a number of 1 to ${longestMs}`)
}

function term(fields: UncheckedFields, name: string): number {
  const value = fields[name]
  if (Number.isSafeInteger(value) && (value as number) >= 0) return value as number
  throw new InvalidRequestError(`"${name}" must be a whole number of at least 0`)
}

function metadata(value: unknown): Metadata {
  const rule = `"metadata" must be an object as JSON of at most ${longestMetadataBytes} bytes and ${deepestMetadata} levels`
  if (typeof value !== 'string' || Buffer.byteLength(value) > longestMetadataBytes) throw new InvalidRequestError(rule)
  let parsed: unknown
  try {
    parsed = JSON.parse(value)
  } catch {
    throw new InvalidRequestError(rule)
  }
  if (!isObject(parsed) || !isHarmless(parsed, deepestMetadata)) {
    throw new InvalidRequestError(`${rule}, without a key such as __proto__`)
  }
  // Numbers may grow when they are serialized again, and the status has no room for that.
  if (Buffer.byteLength(JSON.stringify(parsed)) > longestMetadataBytes) throw new InvalidRequestError(rule)
  return parsed as Metadata
}
