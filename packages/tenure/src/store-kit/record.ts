import { isTenureError, TenureError } from '../common/errors.ts'
import { messageOf } from '@tenure/internal/message'
import type { LeaseRecord, Metadata } from '../engine/lease-store.ts'
import { fieldsOf, invalid, optionalSuccessor, parseObject } from './record-fields.ts'
import type { RecordDraft } from './rules.ts'

const format = 1

/**
 * Encodes a record as text, for stores without their own schema. Every text is unique because it contains the claim's
 * write id or, if the claim has none, a nonce. The nonce is never reported as a write id. It is generated only when
 * needed, because that takes longer than the rest of the encoding.
 *
 * @example
 * await bucket.put(draft.election, encodeRecord(draft, () => clock.randomId()))
 */
export function encodeRecord(draft: RecordDraft, nonce: () => string): string {
  const { election, holder, attempt, term, leaseDurationMs, acquiredAt, renewedAt, released, metadata, checkpoint } =
    draft
  const grant = { election, holder, attempt, term, leaseDurationMs, acquiredAt, renewedAt, released }
  const unique = draft.writeId === undefined ? { nonce: nonce() } : { writeId: draft.writeId }
  const { successor } = draft
  return JSON.stringify({ format, ...grant, metadata, successor, checkpoint, ...unique })
}

/**
 * Decodes text that {@link encodeRecord} wrote. Rejects anything that it does not fully understand, because guessing
 * could elect a second leader.
 *
 * @example
 * const record = { ...decodeRecord(text), version }
 */
export function decodeRecord(text: string): RecordDraft {
  const value = parseObject(text)
  if (value['format'] !== format) {
    throw invalid(`its format is ${JSON.stringify(value['format'])}, but this version reads only format ${format}`)
  }
  const fields = fieldsOf(value)
  return {
    election: fields.text('election'),
    holder: fields.text('holder'),
    attempt: fields.text('attempt'),
    term: fields.term('term'),
    leaseDurationMs: fields.leaseDurationMs('leaseDurationMs'),
    acquiredAt: fields.timeMs('acquiredAt'),
    renewedAt: fields.timeMs('renewedAt'),
    released: fields.boolean('released'),
    metadata: fields.object('metadata') as Metadata,
    checkpoint: fields.text('checkpoint'),
    writeId: fields.optionalText('writeId'),
    ...optionalSuccessor(fields),
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

/** The error for stored data of one election that cannot be used. `what` gives the reason. */
export function unusable(election: string, what: string, cause?: unknown): TenureError {
  const text = `The record of election "${election}" cannot be used: ${what}. This election has no leader until the record is repaired.`
  return new TenureError('RECORD_INVALID', text, { cause })
}

/**
 * Adds the location of unusable data to the error, so that an operator can inspect it. `shared` names the resource that
 * another program may also be using.
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
