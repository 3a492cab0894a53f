/**
 * Writes and reads answers from controllers and the records in them. A candidate accepts an answer only if it matches
 * its request in every part. An answer that cannot be understood counts as no answer.
 */
import { isTerm } from '@tenure/internal/field-reader'
import { isName } from '@tenure/internal/names'
import { errorCodes, TenureError, type ErrorCode } from '../../common/errors.ts'
import type { Granted, LeaseRecord, Metadata, Outcome, Refused } from '../../engine/lease-store.ts'
import { fieldsOf, invalid, parseObject } from '../../store-kit/record-fields.ts'
import { answerFields, emptyFields, readFields, recordFields } from './field-tables.ts'
import { displayedHolderOf, globalHolderIn, globalHolderOf, isGlobalHolder } from './holder-names.ts'
import type { RequestBody } from './request-codec.ts'
import type { MultiClusterAnswer, Patch, RelayedRecord } from './resource-types.ts'

/**
 * Converts a global record to the form that the resources of one cluster show.
 *
 * @example
 * const shown = relayedRecord(record, 'east')
 * console.log(shown.holder) // 'pod-1' for the holder 'east/pod-1'
 */
export function relayedRecord(record: LeaseRecord, cluster: string): RelayedRecord {
  const known = relayed.get(record)
  if (known?.of === cluster) return known.as
  const as = makeRelayed(record, cluster)
  relayed.set(record, { of: cluster, as })
  return as
}

/** A cache, because each record is converted several times. */
const relayed = new WeakMap<LeaseRecord, { readonly of: string; readonly as: RelayedRecord }>()

function makeRelayed(record: LeaseRecord, cluster: string): RelayedRecord {
  const { attempt, term, leaseDurationMs, released, checkpoint, version, writeId, successor } = record
  return {
    ...displayedHolderOf(record.holder, cluster),
    attempt,
    term,
    leaseDurationMs,
    acquiredAt: shownTime(record.acquiredAt),
    renewedAt: shownTime(record.renewedAt),
    released,
    metadata: JSON.stringify(record.metadata),
    checkpoint,
    version,
    // A store that is not part of this library may keep no write ids.
    ...(typeof writeId === 'string' && { writeId }),
    ...(isName(successor) && { successor: displayedHolderOf(successor, cluster).holder }),
  }
}

/** Limits a time for the API server, which accepts only four-digit years. The writer's clock may show any time. */
function shownTime(wallMs: number): number {
  return Math.round(Math.min(Math.max(wallMs, 0), lastTimeMs))
}

const lastTimeMs = Date.UTC(9999, 11, 31)

/** Reads a record completely or not at all. A partial record would show a lease that was never granted. */
export function readRecord(value: unknown): RelayedRecord | undefined {
  const read = readFields(recordFields, value)
  const isWhole = neededFields.every((name) => name in read)
  return isWhole ? (read as RelayedRecord) : undefined
}

const neededFields = Object.keys(recordFields).filter((name) => name !== 'writeId' && name !== 'successor')

/** Converts a record for a candidate. `election` is the name that the candidate uses. */
export function candidateRecord(election: string, record: RelayedRecord): LeaseRecord {
  const read = readRecord(record)
  if (!read) throw invalid('its record is incomplete')
  const { cluster: _, metadata, ...fields } = read
  const numbers = fieldsOf(fields)
  // The global record may be shared with other programs, which begin at term 0 and may leave the duration out.
  numbers.term('term', 0)
  numbers.leaseDurationMs('leaseDurationMs', 'missing')
  numbers.timeMs('acquiredAt')
  numbers.timeMs('renewedAt')
  if (fields.version === '') throw invalid('"version" is empty')
  return { ...fields, election, metadata: parseObject(metadata) as Metadata }
}

/**
 * The reverse of {@link relayedRecord}: converts a record in a status to the form of the global store.
 *
 * @example
 * const { record } = resource.status
 * if (record) console.log(globalRecord(record, { cluster: 'east', election: 'jobs/report' }).holder)
 */
export function globalRecord(
  record: RelayedRecord,
  place: { readonly cluster: string; readonly election: string },
): LeaseRecord {
  const { holder, cluster, metadata, successor, ...rest } = record
  const global = globalHolderIn({ holder, cluster }, place.cluster)
  return {
    ...rest,
    election: place.election,
    holder: global,
    metadata: metadataIn(metadata),
    ...(typeof successor === 'string' && { successor: globalSuccessorIn(successor, place.cluster) }),
  }
}

/** A displayed successor has no field for its cluster, because its form says where it is. */
function globalSuccessorIn(successor: string, ownCluster: string): string {
  if (!isGlobalHolder(successor)) return globalHolderOf(ownCluster, successor)
  return successor.startsWith('/') ? successor.slice(1) : successor
}

function metadataIn(text: string): Metadata {
  try {
    return JSON.parse(text) as Metadata
  } catch {
    return {}
  }
}

/**
 * The answer to a read.
 *
 * @example
 * const answer = answerFound(request.id, await store.read(election, call), 'east')
 */
export function answerFound(id: string, record: LeaseRecord | undefined, cluster: string): MultiClusterAnswer {
  return { id, ok: true, ...(record && { record: relayedRecord(record, cluster) }) }
}

/**
 * The answer to a claim. `retryAfterMs` is set if the controller knows it and the store does not.
 *
 * @example
 * const outcome = await store.renew(claim, call)
 * const answer = answerOutcome(request.id, outcome, { cluster: 'east', retryAfterMs: undefined })
 */
export function answerOutcome(
  id: string,
  outcome: Outcome,
  { cluster, retryAfterMs }: { readonly cluster: string; readonly retryAfterMs: number | undefined },
): MultiClusterAnswer {
  const record = outcome.record && { record: relayedRecord(outcome.record, cluster) }
  if (outcome.ok) return { id, ok: true, ...record, validForMs: wholeMs(outcome.validForMs) }
  return {
    id,
    ok: false,
    ...record,
    highestTerm: outcome.highestTerm,
    ...(retryAfterMs !== undefined && { retryAfterMs: Math.floor(retryAfterMs) }),
  }
}

/** Rounds down, because a holder must not believe in its lease for longer than it was granted. */
function wholeMs(ms: number): number {
  return ms < 1 ? ms : Math.floor(ms)
}

const longestMessage = 2048

/**
 * The answer to a request that can never succeed.
 *
 * @example
 * const answer = answerError(request.id, 'INVALID_REQUEST', 'The request has no holder.')
 */
export function answerError(id: string, code: string, message: string): MultiClusterAnswer {
  return { id, ok: false, error: { code, message: message.slice(0, longestMessage) } }
}

/**
 * An answer as a patch that replaces the previous answer completely.
 *
 * @example
 * await resources.patchStatus(resource, { answers: { [key]: answerPatch(answer) } }, undefined, call)
 */
export function answerPatch({ record, error, ...answer }: MultiClusterAnswer): Patch<MultiClusterAnswer> {
  return { ...emptyAnswer, ...answer, error: error ?? null, record: record ? recordPatch(record) : null }
}

/**
 * A record as a patch that replaces the previous record completely.
 *
 * @example
 * await resources.patchStatus(resource, { record: recordPatch(relayedRecord(record, 'east')) }, version, call)
 */
export function recordPatch(record: RelayedRecord): Patch<RelayedRecord> {
  return { ...emptyRecord, ...record }
}

const emptyAnswer = emptyFields(answerFields)
const emptyRecord = emptyFields(recordFields)

/** The record that a read found. Throws the error that the controller answered with, or `RECORD_INVALID`. */
export function foundIn(election: string, answer: MultiClusterAnswer): LeaseRecord | undefined {
  throwIfError(answer)
  if (!fieldsOf({ ...answer }).boolean('ok')) throw invalid('a read was refused')
  return optionalRecord(election, answer.record)
}

/** The outcome of a claim. Throws the error that the controller answered with, or `RECORD_INVALID`. */
export function outcomeOf(election: string, asked: RequestBody, answer: MultiClusterAnswer): Outcome {
  throwIfError(answer)
  return fieldsOf({ ...answer }).boolean('ok') ? grantOf(election, asked, answer) : refusalOf(election, answer)
}

/**
 * A grant must match the request: the same holder, the same attempt, and, for a renewal or a release, the same term.
 */
function grantOf(election: string, { verb, claim }: RequestBody, answer: MultiClusterAnswer): Granted {
  if (answer.record === undefined) throw invalid('a grant has no record')
  const record = candidateRecord(election, answer.record)
  const { leaseDurationMs = 0 } = claim
  const isOurs = record.holder === claim.holder && record.attempt === claim.attempt
  const isTermAsked = verb === 'acquire' ? record.term > 0 : record.term === claim.term
  if (!isOurs || !isTermAsked || record.released !== (verb === 'release')) {
    throw invalid(`it contains a grant to "${record.holder}" in term ${record.term}, which was not requested`)
  }
  const longestMs = Math.min(leaseDurationMs, record.leaseDurationMs)
  const validForMs = fieldsOf({ ...answer }).number('validForMs', (ms) => ms > 0 && ms <= longestMs)
  return { ok: true, record, validForMs }
}

function refusalOf(election: string, answer: MultiClusterAnswer): Refused {
  const record = optionalRecord(election, answer.record)
  const fields = fieldsOf({ ...answer })
  const highestTerm = fields.number('highestTerm', (term) => isTerm(term, 0) && term >= (record?.term ?? 0))
  const retryAfterMs = isMissing(answer.retryAfterMs)
    ? undefined
    : fields.number('retryAfterMs', (ms) => ms >= 0 && ms < Infinity)
  return { ok: false, ...(record && { record }), highestTerm, ...(retryAfterMs !== undefined && { retryAfterMs }) }
}

function optionalRecord(election: string, record: RelayedRecord | null | undefined): LeaseRecord | undefined {
  return isMissing(record) ? undefined : candidateRecord(election, record)
}

/** Throws if the controller answered that the request can never succeed. */
function throwIfError({ error }: MultiClusterAnswer): void {
  if (isMissing(error)) return
  const fields = fieldsOf({ ...error })
  const code = fields.text('code')
  const message = fields.text('message')
  // A newer controller may use codes that this version does not know.
  const known = (errorCodes as readonly string[]).includes(code)
  throw new RelayedError(known ? (code as ErrorCode) : 'BACKEND_UNAVAILABLE', known ? message : `${code}: ${message}`)
}

/** An error that a controller answered with, as opposed to an answer that cannot be understood. */
export class RelayedError extends TenureError {}

function isMissing(value: unknown): value is null | undefined {
  return value === undefined || value === null
}
