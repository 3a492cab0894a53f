/** The highest term of an election, kept apart from its record, as text. */
import { messageOf } from '@tenure/internal/message'
import { numberField, parseObject, textField, unusable } from './record.ts'

/** Outlives the record. */
export interface KeptTerm {
  readonly term: number
  /** Of the newest lease: how long a candidate waits after the record was deleted. */
  readonly leaseDurationMs: number
}

const format = 1

/** No two are alike, since a version may be a hash of it. */
export function encodeTerm(election: string, kept: KeptTerm, nonce: string): string {
  return JSON.stringify({ format, election, ...kept, nonce })
}

/** The inverse. `more` reads what one store keeps beside the rest. */
export function decodeTerm<More extends object>(
  election: string,
  text: string,
  more: (value: Record<string, unknown>) => More,
): KeptTerm & More {
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
