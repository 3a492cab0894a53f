/** The highest term of an election as text, stored separately from its record. */
import { messageOf } from '@tenure/internal/message'
import { numberField, parseObject, textField, unusable } from './record.ts'

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

/** Decodes what {@link encodeTerm} wrote. `more` reads a store's additional fields. */
export function decodeTerm<More extends object>(
  election: string,
  text: string,
  more: (value: Record<string, unknown>) => More,
): TermRecord & More {
  try {
    const value = parseObject(text)
    numberField(value, 'format', (one) => one === format)
    if (textField(value, 'election') !== election) throw new Error('it belongs to another election')
    return {
      term: numberField(value, 'term', (term) => Number.isSafeInteger(term) && term > 0),
      leaseDurationMs: numberField(value, 'leaseDurationMs', (ms) => ms > 0 && ms < 2 ** 31),
      ...more(value),
    }
  } catch (cause) {
    throw unusable(election, `its highest term cannot be read: ${messageOf(cause)}`, cause)
  }
}
