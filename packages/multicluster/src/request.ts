/**
 * Reads and validates a candidate's request from a resource. All sizes are limited here, and the global holder is set
 * here.
 */
import { isHarmless, isObject } from '@tenure/internal/objects'
import type { AcquireClaim, HeldClaim, Metadata } from 'tenure'
import type { MultiClusterRequest } from 'tenure/stores/multicluster'
import { globalHolderOf, isIdentity } from './names.ts'

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
export interface MalformedRequest {
  readonly malformed: string
}

const longestMs = 2 ** 31 - 1
const longestVersionBytes = 512
const longestIdBytes = 128
const longestTextBytes = 256
const longestMetadataBytes = 4096
const longestCarryBytes = 4096
const deepestMetadata = 8

/** Validates a request. Its data is untrusted, because anybody may have written it. */
export function readRequest(
  request: MultiClusterRequest,
  { election, cluster }: { readonly election: string; readonly cluster: string },
): ValidRequest | MalformedRequest {
  try {
    const fields = asFields(request, 'the request')
    text(fields, 'id', longestIdBytes)
    const timeoutMs = duration(fields, 'timeoutMs')
    const claim = asFields(fields['claim'], 'its claim')
    const { holder } = claim
    if (!isIdentity(cluster, holder))
      throw new InvalidRequestError('"holder" must be an identity without "/" and control characters')
    const asked = { election, holder: globalHolderOf(cluster, holder) }
    const call = callOf(fields['verb'], claim, asked)
    const hasDuration = call.verb !== 'read' || isGiven(claim['leaseDurationMs'])
    return { call, timeoutMs, leaseDurationMs: hasDuration ? duration(claim, 'leaseDurationMs') : undefined }
  } catch (error) {
    if (error instanceof InvalidRequestError) return { malformed: error.message }
    throw error
  }
}

/** What is wrong with an invalid request. */
class InvalidRequestError extends Error {}

type Fields = Readonly<Record<string, unknown>>

function callOf(verb: unknown, claim: Fields, asked: { election: string; holder: string }): GlobalCall {
  switch (verb) {
    case 'read':
      return { verb }
    case 'acquire':
      return { verb, claim: { ...asked, ...acquireFields(claim) } }
    case 'renew':
    case 'release':
      return { verb, claim: { ...asked, ...heldFields(claim, verb) } }
    default:
      throw new InvalidRequestError('"verb" must be read, acquire, renew or release')
  }
}

function acquireFields(claim: Fields): Omit<AcquireClaim, 'election' | 'holder'> {
  return {
    ...commonFields(claim),
    afterTerm: term(claim, 'afterTerm'),
    // An empty version is meaningful: the record does not exist.
    ...(isGiven(claim['expiredVersion']) && { expiredVersion: text(claim, 'expiredVersion', longestVersionBytes, 0) }),
    metadata: metadata(claim['metadata']),
  }
}

function heldFields(claim: Fields, verb: 'renew' | 'release'): Omit<HeldClaim, 'election' | 'holder'> {
  const carries = verb === 'renew' && isGiven(claim['carry'])
  return {
    ...commonFields(claim),
    term: term(claim, 'term'),
    version: text(claim, 'version', longestVersionBytes),
    ...(carries && { carry: text(claim, 'carry', longestCarryBytes, 0) }),
  }
}

function commonFields(claim: Fields) {
  return {
    attempt: text(claim, 'attempt', longestTextBytes),
    leaseDurationMs: duration(claim, 'leaseDurationMs'),
    ...(isGiven(claim['mark']) && { mark: text(claim, 'mark', longestTextBytes) }),
  }
}

function asFields(value: unknown, what: string): Fields {
  if (isObject(value)) return value
  throw new InvalidRequestError(`${what} must be an object`)
}

function isGiven(value: unknown): boolean {
  return value !== undefined && value !== null
}

function text(fields: Fields, name: string, mostBytes: number, leastLength = 1): string {
  const value = fields[name]
  const isSound = typeof value === 'string' && value.length >= leastLength && value.isWellFormed()
  if (isSound && Buffer.byteLength(value) <= mostBytes) return value
  throw new InvalidRequestError(`"${name}" must be text of ${leastLength} to ${mostBytes} bytes`)
}

function duration(fields: Fields, name: string): number {
  const value = fields[name]
  if (typeof value === 'number' && value >= 1 && value <= longestMs) return value
  throw new InvalidRequestError(`"${name}" must be a number of 1 to ${longestMs}`)
}

function term(fields: Fields, name: string): number {
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
