/**
 * What a controller answered, as the port has it. Nothing is believed that does not fit the question in every part: an
 * answer that is not understood counts as none.
 */
import { isObject } from '@tenure/internal/objects'
import { errorCodes, TenureError, type ErrorCode } from '../errors.ts'
import type { Granted, LeaseRecord, Outcome, Refused } from '../lease-store.ts'
import { booleanField, invalid, numberField, optionalText, parseObject, textField } from '../stores/record.ts'
import type { Metadata } from '../lease-store.ts'
import type { Asked } from './requests.ts'
import type { MultiClusterAnswer, RelayedRecord } from './resource.ts'

type Fields = Record<string, unknown>

/** The record that a read found. Throws what the controller answered instead, or `RECORD_INVALID`. */
export function foundIn(election: string, answer: MultiClusterAnswer): LeaseRecord | undefined {
  throwIfError(answer)
  if (!booleanField({ ...answer }, 'ok')) throw invalid('a read was refused')
  return optionalRecord(election, answer.record)
}

/** What became of a claim. Throws what the controller answered instead, or `RECORD_INVALID`. */
export function outcomeOf(election: string, asked: Asked, answer: MultiClusterAnswer): Outcome {
  throwIfError(answer)
  return booleanField({ ...answer }, 'ok') ? grantOf(election, asked, answer) : refusalOf(election, answer)
}

/** A global record, under the name that the election has for the caller. */
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

/** A grant must be the one that was asked for: of this holder, this attempt and, where it was held already, this term. */
function grantOf(election: string, { verb, claim }: Asked, answer: MultiClusterAnswer): Granted {
  if (answer.record === undefined) throw invalid('a grant has no record')
  const record = relayedRecordOf(election, answer.record)
  const { leaseDurationMs = 0 } = claim
  const isOurs = record.holder === claim.holder && record.attempt === claim.attempt
  const isTermAsked = verb === 'acquire' ? record.term > 0 : record.term === claim.term
  if (!isOurs || !isTermAsked || record.released !== (verb === 'release')) {
    throw invalid(`it shows the grant of "${record.holder}" in term ${record.term}, which was not asked for`)
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

/** It can never be carried out, as the controller says. */
function throwIfError({ error }: MultiClusterAnswer): void {
  if (isMissing(error)) return
  const fields: Fields = { ...error }
  const code = textField(fields, 'code')
  const message = textField(fields, 'message')
  // A newer controller may have codes that this version does not know.
  const known = (errorCodes as readonly string[]).includes(code)
  throw new RelayedError(known ? (code as ErrorCode) : 'BACKEND_UNAVAILABLE', known ? message : `${code}: ${message}`)
}

/** What a controller answered, in distinction from an answer that is not understood. */
export class RelayedError extends TenureError {}

function isTerm(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 0
}

function isMissing(value: unknown): value is null | undefined {
  return value === undefined || value === null
}
