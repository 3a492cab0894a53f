import { isName, nameRule } from '@tenure/internal/names'
import { invalidOption } from './errors.ts'

/** Checks an election name or an identity against the common rule. */
export function checkName(option: string, value: unknown): asserts value is string {
  if (!isName(value)) throw invalidOption(option, value, `it must be ${nameRule}`)
}
