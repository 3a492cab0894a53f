import { createHash } from 'node:crypto'

const hashedName = /^h--[0-9a-f]{64}$/

/**
 * A name for a store with narrower names than ours: valid ones verbatim, others hashed. Names that look hashed are
 * hashed themselves, so no two names meet; the record keeps the original.
 */
export function encodeName(name: string, valid: RegExp): string {
  if (valid.test(name) && !hashedName.test(name)) return name
  return `h--${createHash('sha256').update(name).digest('hex')}`
}
