import { TenureError } from '../errors.ts'
import type { Metadata } from '../lease-store.ts'
import type { Draft } from './rules.ts'

const format = 1

/** A record as the text that stores without a schema of their own keep. */
export function encodeRecord(draft: Draft): string {
  return JSON.stringify({ format, ...draft })
}

/** The inverse. A text that is not wholly understood is refused: guessing could elect a second leader. */
export function decodeRecord(text: string): Draft {
  const value = parseObject(text)
  if (value['format'] !== format) {
    throw invalid(`its format is ${JSON.stringify(value['format'])}, and this version reads format ${format}`)
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
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw invalid('it is not a JSON object')
  return value as Record<string, unknown>
}

/** A field that must be a text. */
export function textField(value: Record<string, unknown>, name: string): string {
  const field = value[name]
  if (typeof field === 'string') return field
  throw invalid(`"${name}" is not a text`)
}

/** A field that must be a number of a certain kind. */
export function numberField(value: Record<string, unknown>, name: string, valid: (field: number) => boolean): number {
  const field = value[name]
  if (typeof field === 'number' && valid(field)) return field
  throw invalid(`"${name}" is ${JSON.stringify(field)}`)
}

/** A field that must be true or false. */
export function booleanField(value: Record<string, unknown>, name: string): boolean {
  const field = value[name]
  if (typeof field === 'boolean') return field
  throw invalid(`"${name}" is not true or false`)
}

/** A field that must be an object. */
export function objectField(value: Record<string, unknown>, name: string): Metadata {
  const field = value[name]
  if (typeof field === 'object' && field !== null && !Array.isArray(field)) return field as Metadata
  throw invalid(`"${name}" is not an object`)
}

/** The error for a record that cannot be used; `what` says why. */
export function invalid(what: string, cause?: unknown): TenureError {
  return new TenureError(
    'RECORD_INVALID',
    `The stored record cannot be used: ${what}. Nobody is elected until it is repaired or removed.`,
    { cause },
  )
}
