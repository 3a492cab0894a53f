import { invalidOption, TenureError } from '../common/errors.ts'

/** Terms are safe integers of at least 1. Above 2^53 two different terms could be the same number. */
export function checkTerm(option: string, value: unknown): asserts value is number {
  if (Number.isSafeInteger(value) && (value as number) >= 1) return
  throw invalidOption(option, value, 'a term is a whole number from 1 to 2^53 - 1')
}

const termText = /^[1-9][0-9]{0,15}$/

/** Parses a term in plain decimal digits. Undefined if the text has a sign, a space, an exponent, or a leading zero. */
export function parseTerm(text: string): number | undefined {
  const term = termText.test(text) ? Number(text) : undefined
  return Number.isSafeInteger(term) ? term : undefined
}

export function staleTerm(resource: string, term: number, highestTerm: number | string): TenureError {
  const message = `Resource "${resource}" refuses term ${term}, because it has already accepted term ${highestTerm} from a newer leader.`
  return new TenureError('STALE_TERM', message)
}
