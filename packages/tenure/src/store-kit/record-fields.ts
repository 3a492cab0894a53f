import { FieldReader } from '@tenure/internal/field-reader'
import { isObject } from '@tenure/internal/objects'
import { TenureError } from '../common/errors.ts'

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

/** Reads the fields of stored data. An invalid field is `RECORD_INVALID`. */
export function fieldsOf(value: Readonly<Record<string, unknown>>): FieldReader {
  return new FieldReader(value, invalid)
}

/** A record without a successor has no such field, so that it equals the record that was written. */
export function optionalSuccessor(fields: FieldReader): { readonly successor?: string } {
  const successor = fields.optionalText('successor')
  return successor === undefined ? {} : { successor }
}

/** The error for a record that cannot be used. `what` gives the reason. */
export function invalid(what: string, cause?: unknown): TenureError {
  return new TenureError(
    'RECORD_INVALID',
    `The stored record cannot be used: ${what}. Its election has no leader until the record is repaired or removed.`,
    { cause },
  )
}
