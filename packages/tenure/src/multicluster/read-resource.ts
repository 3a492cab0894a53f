import { isObject } from '@tenure/internal/objects'
import type {
  Condition,
  MultiClusterAnswer,
  MultiClusterLease,
  MultiClusterLeaseSpec,
  MultiClusterLeaseStatus,
  MultiClusterRequest,
  RelayedRecord,
  RequestClaim,
  RequestVerb,
} from './resource.ts'

/** Holds the election's name if it is not a valid resource name, as with Leases. */
export const electionAnnotation = 'tenure.dev/election'

/**
 * Reads an object of the API server. Malformed parts are dropped without hiding anything else, because one candidate
 * must not be able to stop the others. Undefined if the object is not a resource at all.
 */
export function readResource(object: unknown): MultiClusterLease | undefined {
  const { metadata, spec, status } = asObject(object)
  const { namespace, name, uid, generation, resourceVersion, annotations } = asObject(metadata)
  if (!isName(namespace) || !isName(name) || !isName(uid) || !isName(resourceVersion)) return undefined
  return {
    namespace,
    name,
    uid,
    generation: numberOf(generation) ?? 0,
    resourceVersion,
    election: textOf(asObject(annotations)[electionAnnotation]) || undefined,
    spec: readSpec(asObject(spec)),
    status: readStatus(asObject(status)),
  }
}

function readSpec({ holderIdentity, leaseDurationSeconds, renewTime, requests }: Fields): MultiClusterLeaseSpec {
  return known({
    holderIdentity: textOf(holderIdentity),
    leaseDurationSeconds: numberOf(leaseDurationSeconds),
    renewTime: textOf(renewTime),
    requests: mapOf(requests, readRequest),
  })
}

/** A request without an id cannot be answered, so it is dropped. The controller validates the rest. */
function readRequest({ id, verb, renewTime, timeoutMs, claim }: Fields): MultiClusterRequest | undefined {
  if (typeof id !== 'string') return undefined
  return {
    id,
    verb: (textOf(verb) ?? '') as RequestVerb,
    renewTime: textOf(renewTime) ?? '',
    timeoutMs: numberOf(timeoutMs) ?? 0,
    claim: readClaim(asObject(claim)),
  }
}

function readClaim(claim: Fields): RequestClaim {
  return known({
    holder: textOf(claim['holder']) ?? '',
    attempt: textOf(claim['attempt']),
    leaseDurationMs: numberOf(claim['leaseDurationMs']),
    afterTerm: numberOf(claim['afterTerm']),
    expiredVersion: textOf(claim['expiredVersion']),
    metadata: textOf(claim['metadata']),
    term: numberOf(claim['term']),
    version: textOf(claim['version']),
    carry: textOf(claim['carry']),
    mark: textOf(claim['mark']),
  })
}

function readStatus(status: Fields): MultiClusterLeaseStatus {
  const { conditions, silent } = status
  return known({
    leader: textOf(status['leader']),
    globalHolderIdentity: textOf(status['globalHolderIdentity']),
    cluster: textOf(status['cluster']),
    term: numberOf(status['term']),
    acquireTime: textOf(status['acquireTime']),
    renewTime: textOf(status['renewTime']),
    leaseDurationSeconds: numberOf(status['leaseDurationSeconds']),
    observedGeneration: numberOf(status['observedGeneration']),
    conditions: Array.isArray(conditions) ? conditions.filter(isCondition) : undefined,
    record: readRecord(status['record']),
    answers: mapOf(status['answers'], readAnswer),
    silent: Array.isArray(silent) ? silent.filter((key) => typeof key === 'string') : undefined,
  })
}

function readAnswer({ id, ok, record, validForMs, highestTerm, retryAfterMs, error }: Fields) {
  const read = readRecord(record)
  // Without its record, the answer would describe a different outcome.
  const isDamaged = read === undefined && record !== undefined && record !== null
  if (typeof id !== 'string' || typeof ok !== 'boolean' || isDamaged) return undefined
  const { code, message } = asObject(error)
  return known<MultiClusterAnswer>({
    id,
    ok,
    record: read,
    validForMs: numberOf(validForMs),
    highestTerm: numberOf(highestTerm),
    retryAfterMs: numberOf(retryAfterMs),
    error: typeof code === 'string' ? { code, message: textOf(message) ?? '' } : undefined,
  })
}

/** Reads a record completely or not at all, because a partial record would show a lease that was never granted. */
function readRecord(value: unknown): RelayedRecord | undefined {
  const record = asObject(value)
  const read = {
    holder: textOf(record['holder']),
    cluster: textOf(record['cluster']),
    attempt: textOf(record['attempt']),
    term: numberOf(record['term']),
    leaseDurationMs: numberOf(record['leaseDurationMs']),
    acquiredAt: numberOf(record['acquiredAt']),
    renewedAt: numberOf(record['renewedAt']),
    released: typeof record['released'] === 'boolean' ? record['released'] : undefined,
    metadata: textOf(record['metadata']),
    carry: textOf(record['carry']),
    version: textOf(record['version']),
  }
  if (Object.values(read).includes(undefined)) return undefined
  return known({ ...(read as RelayedRecord), mark: textOf(record['mark']) })
}

function isCondition(value: unknown): value is Condition {
  if (!isObject(value)) return false
  const { type, status, reason, message, lastTransitionTime, observedGeneration } = value
  const texts = [type, status, reason, message, lastTransitionTime]
  return texts.every((text) => typeof text === 'string') && numberOf(observedGeneration) !== undefined
}

type Fields = Readonly<Record<string, unknown>>

/** Removes undefined fields. */
function known<T extends object>(fields: T): T {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as T
}

function mapOf<T>(value: unknown, read: (fields: Fields) => T | undefined): Readonly<Record<string, T>> {
  const entries = Object.entries(asObject(value)).map(([key, entry]) => [key, read(asObject(entry))] as const)
  return Object.fromEntries(entries.filter((entry): entry is readonly [string, T] => entry[1] !== undefined))
}

function asObject(value: unknown): Fields {
  return isObject(value) ? value : {}
}

function isName(value: unknown): value is string {
  return typeof value === 'string' && value !== ''
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined
}

function numberOf(value: unknown): number | undefined {
  return typeof value === 'number' ? value : undefined
}
