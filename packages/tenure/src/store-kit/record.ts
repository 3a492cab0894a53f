import { isTenureError, TenureError } from '../common/errors.ts'
import { messageOf } from '@tenure/internal/message'
import { isObject } from '@tenure/internal/objects'
import type { LeaseRecord, Metadata } from '../engine/lease-store.ts'
import type { RecordDraft } from './rules.ts'

const format = 1

/**
 * Encodes a record as text, for stores without their own schema. Every text is unique because it contains the claim's
 * write id or, if the claim has none, a nonce. The nonce is never reported as a write id. It is generated only when
 * needed, because that takes longer than the rest of the encoding.
 */
export function encodeRecord(draft: RecordDraft, nonce: () => string): string {
  const { election, holder, attempt, term, leaseDurationMs, acquiredAt, renewedAt, released, metadata, carry } = draft
  const grant = { election, holder, attempt, term, leaseDurationMs, acquiredAt, renewedAt, released }
  const unique = draft.mark === undefined ? { nonce: nonce() } : { mark: draft.mark }
  return JSON.stringify({ format, ...grant, metadata, carry, ...unique })
}

/**
 * Decodes what {@link encodeRecord} wrote. Rejects anything it does not fully understand: guessing could elect a second
 * leader.
 */
export function decodeRecord(text: string): RecordDraft {
  const value = parseObject(text)
  if (value['format'] !== format) {
    throw invalid(`its format is ${JSON.stringify(value['format'])}, but this version reads only format ${format}`)
  }
  return {
    election: textField(value, 'election'),
    holder: textField(value, 'holder'),
    attempt: textField(value, 'attempt'),
    term: numberField(value, 'term', (term) => Number.isSafeInteger(term) && term > 0),
    leaseDurationMs: numberField(value, 'leaseDurationMs', (ms) => ms > 0 && ms < 2 ** 31),
    acquiredAt: numberField(value, 'acquiredAt', Number.isFinite),
    renewedAt: numberField(value, 'renewedAt', Number.isFinite),
    released: booleanField(value, 'released'),
    metadata: objectField(value, 'metadata'),
    carry: textField(value, 'carry'),
    mark: optionalText(value, 'mark'),
  }
}

/** Decodes stored text as the record of `election`, with the version that the server assigned. */
export function recordOf(election: string, text: string, version: string): LeaseRecord {
  let draft: RecordDraft
  try {
    draft = decodeRecord(text)
  } catch (cause) {
    throw unusable(election, messageOf(cause), cause)
  }
  if (draft.election === election) return { ...draft, version }
  throw unusable(election, `it belongs to "${draft.election}", so two elections share one key`)
}

/** The error for stored data of one election that cannot be used. `what` says why. */
export function unusable(election: string, what: string, cause?: unknown): TenureError {
  const text = `The record of election "${election}" cannot be used: ${what}. This election has no leader until the record is repaired.`
  return new TenureError('RECORD_INVALID', text, { cause })
}

/**
 * Adds the location of unusable data to the error, so that an operator can inspect it. `shared` names what another
 * program may be using too.
 */
export function readAt<T>(place: string, shared: string, read: () => T): T {
  try {
    return read()
  } catch (error) {
    if (!isTenureError(error)) throw error
    const text = `${error.message} Location: ${place}. Check whether another program uses the same ${shared}.`
    throw new TenureError(error.code, text, { cause: error })
  }
}

/** Parses JSON that must be an object. */
export function parseObject(text: string): Record<string, unknown> {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (cause) {
    throw invalid('it is not JSON', cause)
  }
  if (!isObject(value)) throw invalid('it is not a JSON object')
  return value
}

/** Reads a field that must be a string. */
export function textField(value: Record<string, unknown>, name: string): string {
  const field = value[name]
  if (typeof field === 'string') return field
  throw invalid(`"${name}" is not a string`)
}

/** Reads a string field that may be missing. */
export function optionalText(value: Record<string, unknown>, name: string): string | undefined {
  return value[name] === undefined ? undefined : textField(value, name)
}

/** Reads a field that must be a number that satisfies `valid`. */
export function numberField(value: Record<string, unknown>, name: string, valid: (field: number) => boolean): number {
  const field = value[name]
  if (typeof field === 'number' && valid(field)) return field
  throw invalid(`"${name}" is ${JSON.stringify(field)}`)
}

/** Reads a field that must be a boolean. */
export function booleanField(value: Record<string, unknown>, name: string): boolean {
  const field = value[name]
  if (typeof field === 'boolean') return field
  throw invalid(`"${name}" is not a boolean`)
}

/** Reads a field that must be an object. */
export function objectField(value: Record<string, unknown>, name: string): Metadata {
  const field = value[name]
  if (isObject(field)) return field as Metadata
  throw invalid(`"${name}" is not an object`)
}

/** The error for a record that cannot be used. `what` says why. */
export function invalid(what: string, cause?: unknown): TenureError {
  return new TenureError(
    'RECORD_INVALID',
    `The stored record cannot be used: ${what}. Its election has no leader until the record is repaired or removed.`,
    { cause },
  )
}
