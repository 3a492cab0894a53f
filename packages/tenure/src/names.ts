import { createHash } from 'node:crypto'
import { invalidOption } from './errors.ts'

const maxNameBytes = 256
// C0, DEL and C1: they forge log lines and terminal output, and several stores refuse them.
// oxlint-disable-next-line no-control-regex
const controlCharacter = /[\u0000-\u001f\u007f-\u009f]/

/** Election names and identities: 1 to 256 bytes of well-formed UTF-8 without control characters. */
export function checkName(option: string, value: unknown): asserts value is string {
  const rule = `it must be text of 1 to ${maxNameBytes} bytes of UTF-8 without control characters`
  if (typeof value !== 'string' || value.length === 0) throw invalidOption(option, value, rule)
  if (Buffer.byteLength(value) > maxNameBytes) throw invalidOption(option, value, rule)
  if (controlCharacter.test(value) || !value.isWellFormed()) throw invalidOption(option, value, rule)
}

const hashedName = /^h--[0-9a-f]{64}$/

/**
 * A name for a store with narrower names than ours: valid ones verbatim, others hashed. Names that look hashed are
 * hashed themselves, so no two names meet; the record keeps the original.
 */
export function encodeName(name: string, valid: RegExp): string {
  if (valid.test(name) && !hashedName.test(name)) return name
  return `h--${createHash('sha256').update(name).digest('hex')}`
}
