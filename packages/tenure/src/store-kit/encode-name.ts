import { createHash } from 'node:crypto'

const hashedName = /^h--[0-9a-f]{64}$/

/**
 * Encodes a name for a store that allows fewer characters. Valid names stay as they are; others are hashed. A name that
 * looks like a hash is hashed too, so no two names collide. The record keeps the original name.
 */
export function encodeName(name: string, valid: RegExp): string {
  if (valid.test(name) && !hashedName.test(name)) return name
  return `h--${createHash('sha256').update(name).digest('hex')}`
}
