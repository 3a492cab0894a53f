const hashedName = /^h--[0-9a-f]{64}$/

/**
 * Encodes a name for a store that allows fewer characters. Valid names stay unchanged, and others are hashed. A name
 * that looks like a hash is also hashed, so no two names collide. The record keeps the original name.
 */
export function encodeName(name: string, valid: RegExp): string {
  if (valid.test(name) && !hashedName.test(name)) return name
  // Loaded only if a name must be hashed. Otherwise every program that imports the library would load it.
  const { createHash } = process.getBuiltinModule('node:crypto')
  return `h--${createHash('sha256').update(name).digest('hex')}`
}
