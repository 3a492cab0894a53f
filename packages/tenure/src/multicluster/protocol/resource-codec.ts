import { isObject } from '@tenure/internal/objects'
import { readRecord } from './answer-codec.ts'
import {
  answerFields,
  asObject,
  claimFields,
  heartbeatFields,
  readFields,
  requestFields,
  statusFields,
} from './field-tables.ts'
import type { ResourceVersion } from '../resources.ts'
import type {
  Condition,
  MultiClusterAnswer,
  MultiClusterLease,
  MultiClusterLeaseSpec,
  MultiClusterLeaseStatus,
  MultiClusterRequest,
  RequestVerb,
} from './resource-types.ts'

/** Holds the election's name if it is not a valid resource name, as with Leases. */
export const electionAnnotation = 'tenure.dev/election'

/**
 * Reads an object of the API server. Malformed parts are dropped without hiding anything else, because one candidate
 * must not be able to stop the others. Undefined if the object is not a resource.
 */
export function readResource(object: unknown): MultiClusterLease | undefined {
  const { metadata, spec, status } = asObject(object)
  const { namespace, name, uid, generation, resourceVersion, annotations } = asObject(metadata)
  if (!isName(namespace) || !isName(name) || !isName(uid) || !isName(resourceVersion)) return undefined
  const election = asObject(annotations)[electionAnnotation]
  return {
    namespace,
    name,
    uid,
    generation: typeof generation === 'number' ? generation : 0,
    resourceVersion,
    election: isName(election) ? election : undefined,
    spec: readSpec(spec),
    status: readStatus(status),
  }
}

/**
 * The beginning of an event that the API server sends for an ordinary resource. Its metadata comes first, in the order
 * of the alphabet. The expression starts at the beginning and allows no other field, so no part of a resource that
 * somebody else wrote can look like it.
 */
const eventStart =
  /^\{"type":"MODIFIED","object":\{"apiVersion":"[^"]*","kind":"[^"]*","metadata":\{"creationTimestamp":"[^"]*","generation":(\d+),"name":"([^"]*)","namespace":"([^"]*)","resourceVersion":"([^"]*)","uid":"([^"]*)"\}/

/** The version of the resource in a watch event, without parsing the event. Undefined if only parsing can tell. */
export function versionIn(event: string): ResourceVersion | undefined {
  const [, generation, name, namespace, resourceVersion, uid] = eventStart.exec(event) ?? []
  if (!name || !namespace || !resourceVersion || !uid) return undefined
  return { namespace, name, uid, generation: Number(generation), resourceVersion }
}

function readSpec(spec: unknown): MultiClusterLeaseSpec {
  return { ...readFields(heartbeatFields, spec), requests: mapOf(asObject(spec)['requests'], readRequest) }
}

/** A request without an id cannot be answered, so it is dropped. The controller validates the rest. */
function readRequest(value: unknown): MultiClusterRequest | undefined {
  const { id, verb = '', renewTime = '', timeoutMs = 0 } = readFields(requestFields, value)
  if (id === undefined) return undefined
  const claim = { holder: '', ...readFields(claimFields, asObject(value)['claim']) }
  return { id, verb: verb as RequestVerb, renewTime, timeoutMs, claim }
}

function readStatus(status: unknown): MultiClusterLeaseStatus {
  const { conditions, record, answers, silent } = asObject(status)
  const known = readRecord(record)
  return {
    ...readFields(statusFields, status),
    ...(Array.isArray(conditions) && { conditions: conditions.filter(isCondition) }),
    ...(known && { record: known }),
    answers: mapOf(answers, readAnswer),
    ...(Array.isArray(silent) && { silent: silent.filter((key) => typeof key === 'string') }),
  }
}

function readAnswer(value: unknown): MultiClusterAnswer | undefined {
  const { record, error } = asObject(value)
  const { id, ok, ...rest } = readFields(answerFields, value)
  const known = readRecord(record)
  // Without its record, the answer would describe a different outcome.
  const isDamaged = known === undefined && record !== undefined && record !== null
  if (id === undefined || ok === undefined || isDamaged) return undefined
  const { code, message } = readFields(errorFields, error)
  return {
    id,
    ok,
    ...rest,
    ...(known && { record: known }),
    ...(code !== undefined && { error: { code, message: message ?? '' } }),
  }
}

const errorFields = { code: 'string', message: 'string' } as const

function isCondition(value: unknown): value is Condition {
  if (!isObject(value)) return false
  const { type, status, reason, message, lastTransitionTime, observedGeneration } = value
  const texts = [type, status, reason, message, lastTransitionTime]
  return texts.every((text) => typeof text === 'string') && typeof observedGeneration === 'number'
}

function mapOf<T>(value: unknown, read: (entry: unknown) => T | undefined): Readonly<Record<string, T>> {
  const entries: [string, T][] = []
  for (const [key, entry] of Object.entries(asObject(value))) {
    const known = read(entry)
    if (known !== undefined) entries.push([key, known])
  }
  return Object.fromEntries(entries)
}

function isName(value: unknown): value is string {
  return typeof value === 'string' && value !== ''
}
