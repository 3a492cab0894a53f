import { invalidOption, TenureError } from '../errors.ts'

/** Terms are safe integers from 1 on: above 2^53 two different terms can be the same number. */
export function checkTerm(option: string, value: unknown): asserts value is number {
  if (Number.isSafeInteger(value) && (value as number) >= 1) return
  throw invalidOption(option, value, 'a term is a whole number from 1 to 2^53 - 1')
}

const termText = /^[1-9][0-9]{0,15}$/

/** The term that a text spells in plain decimal digits, or undefined: no sign, space, exponent or leading zero. */
export function parseTerm(text: string): number | undefined {
  const term = termText.test(text) ? Number(text) : undefined
  return Number.isSafeInteger(term) ? term : undefined
}

export function staleTerm(resource: string, term: number, highestTerm: number | string): TenureError {
  const message = `Resource "${resource}" refuses term ${term}: it has accepted term ${highestTerm}, so a newer leader writes to it.`
  return new TenureError('STALE_TERM', message)
}
