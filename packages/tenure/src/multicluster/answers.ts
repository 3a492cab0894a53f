/**
 * Converts a controller's answers to results of the port. An answer must match its request in every part. One that
 * cannot be understood counts as no answer.
 */
import { isObject } from '@tenure/internal/objects'
import { errorCodes, TenureError, type ErrorCode } from '../common/errors.ts'
import type { Granted, LeaseRecord, Outcome, Refused } from '../engine/lease-store.ts'
import { booleanField, invalid, numberField, optionalText, parseObject, textField } from '../store-kit/record.ts'
import type { Metadata } from '../engine/lease-store.ts'
import type { RequestBody } from './requests.ts'
import type { MultiClusterAnswer, RelayedRecord } from './resource.ts'

type Fields = Record<string, unknown>

/** The record that a read found. Throws the error that the controller answered with, or `RECORD_INVALID`. */
export function foundIn(election: string, answer: MultiClusterAnswer): LeaseRecord | undefined {
  throwIfError(answer)
  if (!booleanField({ ...answer }, 'ok')) throw invalid('a read was refused')
  return optionalRecord(election, answer.record)
}

/** The outcome of a claim. Throws the error that the controller answered with, or `RECORD_INVALID`. */
export function outcomeOf(election: string, asked: RequestBody, answer: MultiClusterAnswer): Outcome {
  throwIfError(answer)
  return booleanField({ ...answer }, 'ok') ? grantOf(election, asked, answer) : refusalOf(election, answer)
}

/** Converts a global record. `election` is the name that the caller uses. */
export function relayedRecordOf(election: string, record: RelayedRecord): LeaseRecord {
  if (!isObject(record)) throw invalid('its record is not an object')
  const fields: Fields = record
  const version = textField(fields, 'version')
  if (version === '') throw invalid('"version" is empty')
  const mark = fields['mark'] === null ? undefined : optionalText(fields, 'mark')
  return {
    election,
    holder: textField(fields, 'holder'),
    attempt: textField(fields, 'attempt'),
    term: numberField(fields, 'term', isTerm),
    leaseDurationMs: numberField(fields, 'leaseDurationMs', (ms) => ms >= 0 && ms < 2 ** 31),
    acquiredAt: numberField(fields, 'acquiredAt', Number.isFinite),
    renewedAt: numberField(fields, 'renewedAt', Number.isFinite),
    released: booleanField(fields, 'released'),
    metadata: parseObject(textField(fields, 'metadata')) as Metadata,
    carry: textField(fields, 'carry'),
    version,
    ...(mark !== undefined && { mark }),
  }
}

/**
 * A grant must match the request: the same holder, the same attempt, and, for a renewal or a release, the same term.
 */
function grantOf(election: string, { verb, claim }: RequestBody, answer: MultiClusterAnswer): Granted {
  if (answer.record === undefined) throw invalid('a grant has no record')
  const record = relayedRecordOf(election, answer.record)
  const { leaseDurationMs = 0 } = claim
  const isOurs = record.holder === claim.holder && record.attempt === claim.attempt
  const isTermAsked = verb === 'acquire' ? record.term > 0 : record.term === claim.term
  if (!isOurs || !isTermAsked || record.released !== (verb === 'release')) {
    throw invalid(`it contains a grant to "${record.holder}" in term ${record.term}, which was not requested`)
  }
  const longestMs = Math.min(leaseDurationMs, record.leaseDurationMs)
  const validForMs = numberField({ ...answer }, 'validForMs', (ms) => ms > 0 && ms <= longestMs)
  return { ok: true, record, validForMs }
}

function refusalOf(election: string, answer: MultiClusterAnswer): Refused {
  const record = optionalRecord(election, answer.record)
  const fields: Fields = { ...answer }
  const highestTerm = numberField(fields, 'highestTerm', (term) => isTerm(term) && term >= (record?.term ?? 0))
  const retryAfterMs = isMissing(answer.retryAfterMs)
    ? undefined
    : numberField(fields, 'retryAfterMs', (ms) => ms >= 0 && ms < Infinity)
  return { ok: false, ...(record && { record }), highestTerm, ...(retryAfterMs !== undefined && { retryAfterMs }) }
}

function optionalRecord(election: string, record: RelayedRecord | null | undefined): LeaseRecord | undefined {
  return isMissing(record) ? undefined : relayedRecordOf(election, record)
}

/** Throws if the controller answered that the request can never succeed. */
function throwIfError({ error }: MultiClusterAnswer): void {
  if (isMissing(error)) return
  const fields: Fields = { ...error }
  const code = textField(fields, 'code')
  const message = textField(fields, 'message')
  // A newer controller may use codes that this version does not know.
  const known = (errorCodes as readonly string[]).includes(code)
  throw new RelayedError(known ? (code as ErrorCode) : 'BACKEND_UNAVAILABLE', known ? message : `${code}: ${message}`)
}

/** An error that a controller answered with, as opposed to an answer that cannot be understood. */
export class RelayedError extends TenureError {}

function isTerm(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 0
}

function isMissing(value: unknown): value is null | undefined {
  return value === undefined || value === null
}
