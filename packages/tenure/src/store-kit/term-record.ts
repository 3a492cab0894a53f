/** The highest term of an election as text, stored separately from its record. */
import { messageOf } from '@tenure/internal/message'
import type { FieldReader } from '@tenure/internal/field-reader'
import { fieldsOf, parseObject } from './record-fields.ts'
import { unusable } from './record.ts'

/** Survives the deletion of the record. */
export interface TermRecord {
  readonly term: number
  /** Duration of the newest lease: how long a candidate waits after the record was deleted. */
  readonly leaseDurationMs: number
}

const format = 1

/** Encodes a term record. The nonce makes every text unique, since the version may be a hash of it. */
export function encodeTerm(election: string, kept: TermRecord, nonce: string): string {
  return JSON.stringify({ format, election, ...kept, nonce })
}

/** Decodes text that {@link encodeTerm} wrote. `more` reads a store's additional fields. */
export function decodeTerm<More extends object>(
  election: string,
  text: string,
  more: (fields: FieldReader) => More,
): TermRecord & More {
  try {
    const fields = fieldsOf(parseObject(text))
    fields.number('format', (one) => one === format)
    if (fields.text('election') !== election) throw new Error('it belongs to another election')
    return {
      term: fields.term('term'),
      leaseDurationMs: fields.leaseDurationMs('leaseDurationMs'),
      ...more(fields),
    }
  } catch (cause) {
    throw unusable(election, `its highest term cannot be read: ${messageOf(cause)}`, cause)
  }
}
