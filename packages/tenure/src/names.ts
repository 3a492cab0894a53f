import { isName, nameRule } from '@tenure/internal/names'
import { invalidOption } from './errors.ts'

/** Election names and identities, by the one rule for them. */
export function checkName(option: string, value: unknown): asserts value is string {
  if (!isName(value)) throw invalidOption(option, value, `it must be ${nameRule}`)
}
